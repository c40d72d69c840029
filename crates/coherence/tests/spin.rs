//! Spinning threads queue for the line that they read.

use std::cell::RefCell;
use ufutex_coherence::atomic::{AtomicU32, Ordering, spin_loop};
use ufutex_coherence::{Length, Report, Simulation, Topology, current, memory};

#[global_allocator]
static ALLOCATOR: memory::Allocator = memory::Allocator;

const TIMES: usize = 20;

/// Threads take a test-and-set lock, and compute for about `work` ns in between. Returns the owners in order.
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
            // Varies the time, so that threads do not lock in step with the unlocks of others.
            current::compute(work * (0.5 + (thread * 37 + time * 53) as f64 % 100.0 / 100.0));
            current::done(1);
        }
    });
    assert_eq!(report.stuck, 0);
    (report, order.into_inner())
}

#[test]
fn a_contended_lock_costs_the_same_with_any_number_of_waiters() {
    let each = |threads: usize| lock(threads, 200.0).0.ended_ns / (threads * TIMES) as f64;
    let (few, many) = (each(6), each(26));
    assert!(many < 1.5 * few, "{few} ns with 6 threads, {many} with 26");
}

#[test]
fn every_spinning_thread_gets_the_lock() {
    // Real test-and-set locks are not fair: a thread that comes back may pass spinning ones. In the model it does not.
    let (_, order) = lock(12, 2000.0);
    assert_eq!(order.len(), 12 * TIMES);
    let last = |thread: usize| order.iter().position(|one| *one == thread).expect("it had the lock");
    assert!((0..12).map(last).max() < Some(6 * 12), "a thread waited for long: {order:?}");
}

#[test]
fn a_spinning_thread_sees_a_store_to_another_line_of_its_loop() {
    let topology = Topology::given("skylake-2s").expect("a given machine");
    let flags = memory::by_line(|| [Box::new(AtomicU32::new(0)), Box::new(AtomicU32::new(0))]);
    let report = Simulation::new(&topology).threads(2).length(Length::Whole).run(|thread| {
        current::rendezvous();
        if thread == 1 {
            current::compute(50_000.0);
            flags[0].store(1, Ordering::Release);
        } else {
            // The loop's last read is of the line that is never written.
            while flags[0].load(Ordering::Acquire) + flags[1].load(Ordering::Acquire) == 0 {
                spin_loop();
            }
        }
    });
    assert_eq!(report.stuck, 0);
    assert!(report.ended_ns < 60_000.0, "{}", report.ended_ns);
}
