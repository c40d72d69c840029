//! Tests the machine with programs of known cost.

use std::cell::{Cell, RefCell};
use ufutex_coherence::atomic::{AtomicU32, AtomicU64, Ordering, UnsafeCell, fence, spin_loop};
use ufutex_coherence::current::{self, Slept};
use ufutex_coherence::objects::{self, Field};
use ufutex_coherence::{Length, Report, Simulation, Topology, memory};

#[global_allocator]
static ALLOCATOR: memory::Allocator = memory::Allocator;

use Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

#[derive(Default)]
#[repr(align(64))]
struct OwnLine(AtomicU64);

fn epyc() -> Topology {
    Topology::given("epyc-9d64").unwrap()
}

fn hammer<R>(threads: usize, seed: u64, operation: impl Fn(usize) -> R) -> Report {
    Simulation::new(&epyc())
        .threads(threads)
        .seed(seed)
        .length(Length::Operations { warm_up: 200 * threads as u64, measured: 2000 * threads as u64 })
        .run(|thread| {
            current::rendezvous();
            while !current::is_over() {
                let _ = operation(thread);
                current::done(1);
            }
        })
}

/// Asserts that two figures differ by at most `percent` per cent.
#[track_caller]
fn assert_near(figure: f64, expected: f64, percent: f64) {
    let off = (figure / expected - 1.0).abs() * 100.0;
    assert!(off <= percent, "{figure} is {off:.1} % off {expected}");
}

/// Increments a counter, then computes for longer than a core may keep a line that other cores request.
fn add_and_work(counter: &OwnLine) {
    counter.0.fetch_add(1, Relaxed);
    current::compute(100.0);
}

#[test]
fn a_contended_counter_counts_once_a_transfer() {
    let (latency, counter) = (epyc().latency, OwnLine::default());
    let alone = hammer(1, 1, |_| counter.0.fetch_add(1, Relaxed));
    assert_near(alone.per_second(), 1e9 / latency.locked, 1.0);
    // Within a chiplet each addition waits for the line, and each transfer for an addition.
    let chiplet = hammer(8, 1, |_| add_and_work(&counter));
    assert_near(chiplet.per_second(), 1e9 / (latency.chiplet + latency.locked), 3.0);
    // Of the 64 cores 56 are in other chiplets, but most transfers stay within a chiplet.
    let socket = hammer(64, 1, |_| add_and_work(&counter));
    let (near, far) = (socket.counts.near() as f64, socket.counts.far() as f64);
    let transfer = (latency.chiplet * near + latency.socket * far) / (near + far);
    assert_near(socket.per_second(), 1e9 / (transfer + latency.locked), 3.0);
    assert!(near > far, "{near} and {far}");
    assert_eq!(socket.counts.hitm, socket.counts.near() + socket.counts.far());
    assert_near(socket.per_operation(socket.counts.hitm), 1.0, 3.0);
}

#[test]
fn a_private_counter_scales() {
    let counters: Vec<OwnLine> = (0..64).map(|_| OwnLine::default()).collect();
    let alone = hammer(1, 1, |thread| counters[thread].0.fetch_add(1, Relaxed));
    let all = hammer(64, 1, |thread| counters[thread].0.fetch_add(1, Relaxed));
    assert_near(all.per_second(), 64.0 * alone.per_second(), 1.0);
    assert_eq!(all.counts.hitm, 0);
}

#[test]
fn readers_of_one_line_do_not_disturb_each_other() {
    let word = OwnLine::default();
    let alone = hammer(1, 1, |_| word.0.load(Acquire));
    let all = hammer(64, 1, |_| word.0.load(Acquire));
    assert_near(all.per_second(), 64.0 * alone.per_second(), 1.0);
}

#[test]
fn every_core_in_the_queue_of_a_line_gets_it() {
    let counter = OwnLine::default();
    let report = hammer(32, 3, |_| add_and_work(&counter));
    let (least, most) = (report.by_thread.iter().min().unwrap(), report.by_thread.iter().max().unwrap());
    assert!(*most < least * 2, "{least} to {most}");
    assert!(
        report.hot[0].waited_ns > report.window_ns as u64 * 20,
        "32 cores, of which one has it: {:?}",
        report.hot[0]
    );
}

#[test]
fn a_seed_decides_everything() {
    let run = |seed| {
        let (counter, words) = memory::by_line(|| {
            (OwnLine::default(), (0..16).map(|_| Box::new(AtomicU32::new(0))).collect::<Vec<Box<AtomicU32>>>())
        });
        hammer(16, seed, |thread| {
            let number = counter.0.fetch_add(1, Relaxed) as usize;
            words[(number * 7 + thread) % 16].fetch_or(1, AcqRel);
            let made = Box::new(AtomicU32::new(0));
            made.store(1, Release);
        })
    };
    let first = run(5);
    // Allocations by the host must not change the result.
    let _elsewhere: Vec<Vec<u8>> = (0..100).map(|n| vec![0; n * 37]).collect();
    assert_eq!(first, run(5));
    for other in [6, 7, 5 + (1 << 40)] {
        assert_ne!(first.window_ns, run(other).window_ns, "seed {other}");
    }
}

#[test]
fn time_is_measured_from_when_all_are_there() {
    let report = Simulation::new(&epyc())
        .threads(4)
        .length(Length::Time { warm_up_ns: 1000, measured_ns: 10_000 })
        .run(|thread| {
            current::compute(thread as f64 * 5000.0);
            current::rendezvous();
            while !current::is_over() {
                current::compute(100.0);
                spin_loop();
                current::done(1);
            }
        });
    assert_eq!(report.window_ns, 10_000.0);
    assert_near(report.per_second(), 4.0 * 1e9 / (100.0 + epyc().latency.pause), 3.0);
}

#[test]
fn a_store_is_cheap_until_a_barrier_waits_for_it() {
    let (word, cost) = (OwnLine::default(), Cell::new((0, 0)));
    Simulation::new(&epyc()).threads(9).run(|thread| {
        if thread == 0 {
            word.0.store(1, SeqCst);
        }
        current::rendezvous();
        if thread == 8 {
            let begin = current::now_ns();
            word.0.store(2, Release);
            let stored = current::now_ns();
            fence(SeqCst);
            cost.set((stored - begin, current::now_ns() - begin));
        }
    });
    let (stored, drained) = cost.get();
    assert!(stored <= 1, "{stored}");
    let latency = epyc().latency;
    assert_near(drained as f64, latency.socket + latency.barrier, 1.5);
}

#[test]
fn the_store_buffer_answers_its_own_core() {
    let (word, cost) = (OwnLine::default(), Cell::new(0));
    Simulation::new(&epyc()).threads(9).run(|thread| {
        word.0.load(Relaxed);
        current::rendezvous();
        if thread == 8 {
            let begin = current::now_ns();
            word.0.store(2, Relaxed);
            assert_eq!(word.0.load(Relaxed), 2);
            cost.set(current::now_ns() - begin);
        }
    });
    assert!(cost.get() <= 2, "{}", cost.get());
}

#[test]
fn a_lock_keeps_others_out() {
    let (lock, inside) = (OwnLine::default(), UnsafeCell::new(0_u64));
    let report = hammer(16, 2, |_| {
        while lock.0.compare_exchange(0, 1, Acquire, Relaxed).is_err() {
            spin_loop();
        }
        // SAFETY: this thread holds the lock.
        inside.with_mut(|count| unsafe { *count += 1 });
        lock.0.store(0, Release);
    });
    // SAFETY: all threads have ended.
    let counted = inside.with(|count| unsafe { *count });
    assert!(counted >= report.operations && report.stuck == 0, "{counted} of {report:?}");
}

#[test]
fn a_sleeping_thread_leaves_its_core_and_is_woken() {
    let (word, log) = (AtomicU32::new(0), RefCell::new(Vec::new()));
    let report = Simulation::new(&epyc()).placement(vec![0, 0, 1]).run(|thread| match thread {
        0 => {
            while word.load(Acquire) == 0 {
                assert_eq!(current::sleep_while(&word, 0, None), Slept::Woken);
            }
            log.borrow_mut().push(("woken", current::now_ns()));
        }
        1 => {
            current::compute(1000.0);
            log.borrow_mut().push(("ran", current::now_ns()));
        }
        _ => {
            current::compute(50_000.0);
            word.store(1, Release);
            assert_eq!(current::wake(word.as_ptr().addr(), 1), 1);
            assert_eq!(current::wake(word.as_ptr().addr(), 1), 0);
        }
    });
    assert_eq!(report.stuck, 0);
    let log = log.into_inner();
    assert_eq!([log[0].0, log[1].0], ["ran", "woken"]);
    assert!(log[0].1 < 10_000 && log[1].1 > 51_000, "{log:?}");
}

#[test]
fn a_sleep_ends_by_its_deadline_and_not_by_an_older_one() {
    let word = AtomicU32::new(0);
    let report = Simulation::new(&epyc()).threads(2).run(|thread| {
        if thread == 1 {
            current::compute(4000.0);
            assert_eq!(current::wake(word.as_ptr().addr(), 1), 1);
            return;
        }
        assert_eq!(current::sleep_while(&word, 1, None), Slept::Differs);
        assert_eq!(current::sleep_while(&word, 0, Some(20_000)), Slept::Woken);
        assert_eq!(current::sleep_while(&word, 0, Some(90_000)), Slept::TimedOut);
        assert!((90_000..95_000).contains(&current::now_ns()), "{}", current::now_ns());
        current::nap(10_000);
        assert!((100_000..110_000).contains(&current::now_ns()), "{}", current::now_ns());
    });
    assert_eq!(report.stuck, 0);
}

#[test]
fn threads_of_one_core_have_it_in_turn() {
    let turns = RefCell::new(Vec::new());
    let report = Simulation::new(&epyc()).placement(vec![0; 3]).run(|thread| {
        for _ in 0..40 {
            current::compute(250_000.0);
            spin_loop();
            turns.borrow_mut().push(thread);
        }
    });
    assert_eq!(report.stuck, 0);
    let turns = turns.into_inner();
    let changes = turns.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert!((6..20).contains(&changes), "slices of 3 ms in 30 ms: {turns:?}");
    assert_near(report.ended_ns, 30e6, 2.0);
}

#[test]
fn a_thread_that_cannot_go_on_is_stuck() {
    let word = AtomicU32::new(0);
    let sleeps = |_| {
        current::sleep_while(&word, 0, None);
    };
    assert_eq!(Simulation::new(&epyc()).threads(3).run(sleeps).stuck, 3);
    let spins = |_| {
        while word.load(Relaxed) == 0 {
            spin_loop();
        }
    };
    assert_eq!(Simulation::new(&epyc()).threads(2).limit_ns(100_000).run(spins).stuck, 2);
}

#[test]
fn transfers_are_counted_by_object_field_and_site() {
    #[repr(C, align(64))]
    #[derive(Default)]
    struct Pair {
        hot: AtomicU64,
        read: AtomicU64,
    }
    const FIELDS: &[Field] = &[Field { offset: 0, bytes: 8, name: "hot" }, Field { offset: 8, bytes: 8, name: "read" }];
    let pairs: Vec<Pair> = (0..2).map(|_| Pair::default()).collect();
    objects::name(pairs.as_ptr().addr(), size_of::<Pair>(), 2, "Pair", FIELDS);
    let report = hammer(8, 1, |_| {
        pairs[1].hot.fetch_add(1, Relaxed);
        current::compute(100.0);
        pairs[1].read.load(Relaxed);
    });
    let [first, second] = &report.hot[..] else { panic!("{:?}", report.hot) };
    assert_eq!((first.place.object, first.place.field, first.place.offset), ("Pair", "hot", 0));
    assert_eq!((second.place.field, second.place.offset), ("read", 8));
    assert_eq!(first.sites[0].file, file!());
    assert_eq!(first.hitm() + second.hitm(), report.counts.hitm);
    assert_eq!(first.hitm_far, 0, "all within a chiplet");
}

#[test]
fn transfers_of_a_renamed_object_count_under_its_name_at_the_time() {
    const ROUNDS: u64 = 10;
    let counter = OwnLine::default();
    let address = counter.0.as_ptr().addr();
    let name = |name| objects::name(address, 8, 1, name, &[]);
    let changes: [&dyn Fn(); 4] =
        [&|| (), &|| name("early"), &|| name("late"), &|| objects::forget(address, address + 8)];
    let report = Simulation::new(&epyc()).threads(2).length(Length::Whole).run(|thread| {
        for change in changes {
            current::rendezvous();
            if thread == 0 {
                change();
            }
            current::rendezvous();
            (0..ROUNDS).for_each(|_| add_and_work(&counter));
        }
    });
    let transfers = |name| report.hot.iter().find(|hot| hot.place.object == name).map_or(0, |hot| hot.transfers);
    let [unnamed, early, late] = [objects::UNNAMED, "early", "late"].map(transfers);
    let both_threads = ROUNDS..=2 * ROUNDS;
    assert!(both_threads.contains(&early) && both_threads.contains(&late), "{early}, {late}");
    assert!((2 * ROUNDS..=4 * ROUNDS).contains(&unnamed), "before and after: {unnamed}");
}

#[test]
fn outside_of_a_simulation_atomics_are_plain() {
    let word = AtomicU32::new(1);
    assert_eq!(word.fetch_add(1, SeqCst), 1);
    assert_eq!(word.compare_exchange(2, 3, SeqCst, SeqCst), Ok(2));
    assert_eq!((current::now_ns(), current::is_simulated(), current::cpus()), (0, false, 1));
    assert_eq!(current::sleep_while(&word, 3, None), Slept::Differs);
}
