//! Tests who pays for a transfer: when it is requested, how long the holder keeps the line, and which core is next.

use std::cell::RefCell;
use ufutex_coherence::atomic::{AtomicU64, Ordering, spin_loop};
use ufutex_coherence::current;
use ufutex_coherence::{Length, Report, Simulation, Topology};

use Ordering::{Relaxed, SeqCst};

#[derive(Default)]
#[repr(align(64))]
struct OwnLine(AtomicU64);

/// A machine of two sockets, with all cores of a socket equally near. Cores look `window` nanoseconds ahead.
fn machine(window: f64) -> Topology {
    let mut topology = Topology::given("skylake-2s").expect("a given machine");
    topology.latency.window = window;
    topology
}

/// Nanoseconds of an addition to a line that another core of the socket wrote before, after `computed` ns of computing.
fn addition_ns(window: f64, computed: f64, locked_before: bool) -> f64 {
    let (line, own, cost) = (OwnLine::default(), OwnLine::default(), RefCell::new(0));
    let report = Simulation::new(&machine(window)).threads(2).run(|thread| {
        (if thread == 0 { &line } else { &own }).0.store(1, SeqCst);
        current::rendezvous();
        if thread == 1 {
            current::compute(10_000.0);
            // The window begins at this locked instruction.
            own.0.fetch_add(1, Relaxed);
            current::compute(computed);
            if locked_before {
                own.0.fetch_add(1, Relaxed);
            }
            let begin = current::now_ns();
            line.0.fetch_add(1, Relaxed);
            *cost.borrow_mut() = current::now_ns() - begin;
        }
    });
    assert_eq!(report.stuck, 0);
    cost.into_inner() as f64
}

#[track_caller]
fn assert_about(figure: f64, expected: f64) {
    assert!((figure - expected).abs() <= 1.5, "{figure}, where {expected} was expected");
}

#[test]
fn a_core_requests_a_line_as_soon_as_it_has_the_access_in_sight() {
    let latency = machine(0.0).latency;
    let whole = latency.chiplet + latency.locked;
    assert_about(addition_ns(0.0, 500.0, false), whole);
    assert_about(addition_ns(30.0, 500.0, false), whole - 30.0);
    assert_about(addition_ns(30.0, 10.0, false), whole - 10.0);
    assert_about(addition_ns(200.0, 500.0, false), latency.locked);
}

#[test]
fn nothing_is_asked_for_ahead_of_a_locked_instruction() {
    let latency = machine(0.0).latency;
    assert_about(addition_ns(30.0, 500.0, true), latency.chiplet + latency.locked);
}

/// Nanoseconds of an addition to a line that a core of the socket wrote. This core and `reader` have read it since.
fn addition_to_copies_ns(reader: u16) -> f64 {
    let (line, cost) = (OwnLine::default(), RefCell::new(0));
    let report = Simulation::new(&machine(0.0)).placement(vec![0, 1, reader]).run(|thread| {
        if thread == 0 {
            line.0.store(1, SeqCst);
        }
        current::rendezvous();
        current::compute(1_000.0 * (1 + thread) as f64);
        line.0.load(Relaxed);
        if thread == 1 {
            current::compute(10_000.0);
            let begin = current::now_ns();
            line.0.fetch_add(1, Relaxed);
            *cost.borrow_mut() = current::now_ns() - begin;
        }
    });
    assert_eq!(report.stuck, 0);
    cost.into_inner() as f64
}

#[test]
fn a_write_to_a_line_with_copies_in_another_socket_reads_the_directory_in_memory() {
    let latency = machine(0.0).latency;
    assert_about(addition_to_copies_ns(2), latency.socket + latency.locked);
    assert_about(addition_to_copies_ns(28), latency.far + latency.memory + latency.locked);
}

#[test]
fn no_line_arrives_before_its_holder_has_written_to_it() {
    let (line, cost) = (OwnLine::default(), RefCell::new(0));
    Simulation::new(&machine(1000.0)).threads(2).run(|thread| {
        if thread == 0 {
            line.0.store(1, SeqCst);
        }
        current::rendezvous();
        let begin = 10_000 + 2 * thread as u64;
        current::compute((begin - current::now_ns()) as f64);
        line.0.fetch_add(1, Relaxed);
        if thread == 1 {
            *cost.borrow_mut() = current::now_ns() - begin;
        }
    });
    // However early the line was requested: it comes one leg of three after the holder's write, which was 2 ns ago.
    let latency = machine(0.0).latency;
    assert_about(cost.into_inner() as f64, latency.chiplet / 3.0 - 2.0 + latency.locked);
}

/// Each of `threads` threads repeats `operation`, and computes for `work` ns in between.
fn hammer(topology: Topology, threads: usize, work: f64, operation: impl Fn(usize)) -> Report {
    let placement = |thread: usize| (thread % 2 * topology.cores() / 2 + thread / 2) as u16;
    let each = |operations: usize| (threads * operations) as u64;
    Simulation::new(&topology)
        .placement((0..threads).map(placement).collect())
        .length(Length::Operations { warm_up: each(100), measured: each(1000) })
        .run(|thread| {
            current::rendezvous();
            while !current::is_over() {
                operation(thread);
                current::compute(work);
                current::done(1);
            }
        })
}

/// Additions for each transfer of the counter's line, between two cores on two sockets.
fn additions_by_transfer(work: f64) -> f64 {
    let (counter, topology) = (OwnLine::default(), machine(0.0));
    let report = hammer(topology, 2, work, |_| {
        counter.0.fetch_add(1, Relaxed);
    });
    report.operations as f64 / report.counts.hitm as f64
}

#[test]
fn the_owner_of_a_line_uses_it_until_the_last_leg_of_the_transfer() {
    let latency = machine(0.0).latency;
    // The addition itself, and as many more as fit into two legs of three.
    let expected = 1.0 + latency.far * 2.0 / 3.0 / latency.locked;
    let additions = additions_by_transfer(0.0);
    assert!((expected - 1.5..expected + 1.5).contains(&additions), "{additions}, where {expected} was expected");
    assert!(additions_by_transfer(200.0) < 1.05);
}

#[test]
fn the_nearest_core_is_next_and_no_core_waits_for_ever() {
    let counter = OwnLine::default();
    let report = hammer(machine(0.0), 16, 150.0, |_| {
        counter.0.fetch_add(1, Relaxed);
    });
    let far = report.counts.far() as f64 / report.operations as f64;
    // Eight of the other fifteen cores are far.
    assert!((0.05..0.4).contains(&far), "{far} of the transfers are far");
    let (least, most) = (report.by_thread.iter().min(), report.by_thread.iter().max());
    assert!(most.unwrap() < &(least.unwrap() * 2), "{:?}", report.by_thread);
}

/// What the other thread does at that time.
#[derive(Clone, Copy)]
enum Meanwhile {
    Works,
    Sleeps,
    Spins,
}

/// How long a thread works while another thread runs on the hardware thread `other`.
fn works_for(other: u16, meanwhile: Meanwhile) -> f64 {
    let (ended, line) = (RefCell::new(0), OwnLine::default());
    let report = Simulation::new(&machine(0.0)).placement(vec![0, other]).run(|thread| {
        current::rendezvous();
        match meanwhile {
            Meanwhile::Sleeps if thread == 1 => return current::nap(200_000),
            Meanwhile::Spins if thread == 1 => {
                while line.0.load(Relaxed) == 0 {
                    spin_loop();
                }
                return;
            }
            _ => {}
        }
        (0..1000).for_each(|_| {
            current::compute(10.0);
            let _turn = line.0.load(Relaxed);
        });
        if thread == 0 {
            *ended.borrow_mut() = current::now_ns();
            line.0.store(1, Relaxed);
        }
    });
    assert_eq!(report.stuck, 0);
    ended.into_inner() as f64
}

#[test]
fn two_threads_of_a_core_share_what_it_can_do() {
    let sibling = machine(0.0).cores() as u16;
    let alone = works_for(1, Meanwhile::Works);
    let slower = |meanwhile| works_for(sibling, meanwhile) / alone;
    let expected = 1.0 + machine(0.0).latency.sibling;
    assert!((expected * 0.95..expected * 1.05).contains(&slower(Meanwhile::Works)), "{}", slower(Meanwhile::Works));
    for meanwhile in [Meanwhile::Sleeps, Meanwhile::Spins] {
        assert!(slower(meanwhile) < 1.05, "{}", slower(meanwhile));
    }
}
