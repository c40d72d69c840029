//! On virtual cores the designs are still timer tables, their lock excludes other threads, and runs are deterministic.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use ufutex_coherence::atomic::{AtomicU32, Ordering};
use ufutex_coherence::{Length, Report, Simulation, Topology, current, memory};
use ufutex_designs_sim::{Emulated, Notify, Process, global_lock, precheck, radix, scaled};

#[global_allocator]
static ALLOCATOR: memory::Allocator = memory::Allocator;

const THREADS: usize = 24;
const TIMERS: usize = 40;

fn simulation() -> Simulation {
    let topology = Topology::given("skylake-2s").expect("a given machine");
    Simulation::new(&topology).threads(THREADS).seed(5).length(Length::Whole)
}

/// Each thread creates timers, looks each up, deletes every second one, and looks all up again.
fn hold_their_timers<P: Process>(processes: &[P]) -> Report {
    let ids: Vec<_> = processes.iter().map(|_| RefCell::new(HashSet::new())).collect();
    let report = simulation().run(|number| {
        let (process, ids) = (&processes[number % processes.len()], &ids[number % processes.len()]);
        let mut thread = process.thread();
        current::rendezvous();
        let mine: Vec<i32> =
            (0..TIMERS).map(|_| process.create(&mut thread, Notify::Nothing).expect("an ID")).collect();
        for id in &mine {
            assert!(ids.borrow_mut().insert(*id), "{id} was given out twice");
            assert_eq!(process.getoverrun(*id), Ok(0), "{id}");
        }
        for id in mine.iter().step_by(2) {
            assert_eq!(process.delete(&mut thread, *id), Ok(()), "{id}");
            assert_eq!(process.getoverrun(*id), Err(libc::EINVAL), "{id} is gone");
        }
        assert!(mine.iter().skip(1).step_by(2).all(|id| process.getoverrun(*id) == Ok(0)));
        current::done(TIMERS as u64);
    });
    assert_eq!((report.stuck, report.operations), (0, (THREADS * TIMERS) as u64));
    report
}

/// Runs in one process, and in a process for each thread, each twice.
fn are_timer_tables<P: Process>(make: impl Fn(usize) -> Vec<P>) {
    for processes in [1, THREADS] {
        let run = || hold_their_timers(&memory::by_line(|| make(processes)));
        let (once, again) = (run(), run());
        assert_eq!(
            (once.ended_ns, once.counts),
            (again.ended_ns, again.counts),
            "{processes} processes: it repeats itself"
        );
    }
}

#[test]
fn one_lock_for_one_hash() {
    are_timer_tables(|processes| Emulated::sharing(global_lock::Hash::<false>::default(), processes));
}

#[test]
fn a_look_before_the_lock() {
    are_timer_tables(|processes| Emulated::sharing(precheck::Checking::default(), processes));
}

#[test]
fn a_hash_with_a_lock_in_each_bucket() {
    are_timer_tables(|processes| Emulated::sharing(scaled::Scaled::new(1), processes));
}

#[test]
fn a_tree_in_each_process() {
    are_timer_tables(|processes| Emulated::apart(radix::Radix::default, processes));
}

#[test]
fn one_lock_serves_its_queue_in_order_and_excludes() {
    let lock = memory::by_line(|| Box::new(ufutex_designs_sim::Spin::default()));
    let turn = memory::by_line(|| Box::new(AtomicU32::new(0)));
    let (inside, order) = (Cell::new(false), RefCell::new(Vec::new()));
    let report = simulation().run(|thread| {
        // So far apart that each thread is queued before the next one comes, while the first still has the lock.
        current::compute(thread as f64 * 2_000.0);
        let held = lock.lock();
        assert!(!inside.replace(true), "two have it");
        order.borrow_mut().push(thread);
        current::compute(100_000.0);
        // An access, at which other threads may run.
        turn.load(Ordering::Relaxed);
        inside.set(false);
        drop(held);
    });
    assert_eq!(report.stuck, 0);
    assert_eq!(order.into_inner(), (0..THREADS).collect::<Vec<_>>());
}

#[test]
fn threads_scale_on_the_scaled_hash_and_not_on_one_lock() {
    let ended = |report: Report| report.ended_ns;
    let one = ended(hold_their_timers(&memory::by_line(|| {
        Emulated::sharing(global_lock::Hash::<false>::default(), THREADS)
    })));
    let many = ended(hold_their_timers(&memory::by_line(|| Emulated::sharing(scaled::Scaled::new(112), THREADS))));
    assert!(many * 3.0 < one, "{one} ns on one lock, {many} ns on many");
}
