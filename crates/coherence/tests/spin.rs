//! Loops that spin queue at the line that they look at.

use std::cell::RefCell;
use ufutex_coherence::atomic::{AtomicU32, Ordering, spin_loop};
use ufutex_coherence::{Length, Report, Simulation, Topology, current, memory};

#[global_allocator]
static ALLOCATOR: memory::Allocator = memory::Allocator;

const TIMES: usize = 20;

/// So many threads take a test-and-set lock, and work for `work` before they come back; the order in which they had it.
fn lock(threads: usize, work: f64) -> (Report, Vec<usize>) {
    let topology = Topology::given("skylake-2s").expect("a given machine");
    let (lock, order) = (memory::by_line(|| Box::new(AtomicU32::new(0))), RefCell::new(Vec::new()));
    let report = Simulation::new(&topology).threads(threads).length(Length::Whole).run(|thread| {
        current::rendezvous();
        for time in 0..TIMES {
            while lock.load(Ordering::Relaxed) == 1
                || lock.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err()
            {
                spin_loop();
            }
            order.borrow_mut().push(thread);
            current::compute(200.0);
            lock.store(0, Ordering::Release);
            // Not in step with the unlocking of others.
            current::compute(work * (0.5 + (thread * 37 + time * 53) as f64 % 100.0 / 100.0));
            current::done(1);
        }
    });
    assert_eq!(report.stuck, 0);
    (report, order.into_inner())
}

#[test]
fn a_contended_lock_costs_the_same_whoever_waits_for_it() {
    let each = |threads: usize| lock(threads, 200.0).0.ended_ns / (threads * TIMES) as f64;
    let (few, many) = (each(6), each(26));
    assert!(many < 1.5 * few, "{few} ns with 6 threads, {many} with 26");
}

#[test]
fn everybody_who_spins_has_a_turn() {
    // Test-and-set locks are not fair: who comes back at once passes those who spin. These do not.
    let (_, order) = lock(12, 2000.0);
    assert_eq!(order.len(), 12 * TIMES);
    let last = |thread: usize| order.iter().position(|one| *one == thread).expect("it had the lock");
    assert!((0..12).map(last).max() < Some(6 * 12), "somebody waited for long: {order:?}");
}

#[test]
fn what_comes_elsewhere_is_seen_too() {
    let topology = Topology::given("skylake-2s").expect("a given machine");
    let flags = memory::by_line(|| [Box::new(AtomicU32::new(0)), Box::new(AtomicU32::new(0))]);
    let report = Simulation::new(&topology).threads(2).length(Length::Whole).run(|thread| {
        current::rendezvous();
        if thread == 1 {
            current::compute(50_000.0);
            flags[0].store(1, Ordering::Release);
        } else {
            // The line looked at last is the one that nobody writes to.
            while flags[0].load(Ordering::Acquire) + flags[1].load(Ordering::Acquire) == 0 {
                spin_loop();
            }
        }
    });
    assert_eq!(report.stuck, 0);
    assert!(report.ended_ns < 60_000.0, "{}", report.ended_ns);
}
