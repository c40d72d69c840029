//! A thread with a real-time priority goes on when a thread without one is in the middle of something, and has no CPU but
//! the same: whatever it waits for, it sleeps.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use ufutex::{Domain, Error, Timeout, WaitOptions};

use crate::common::domains::system;
use crate::common::waiters::{idle, queue};
use crate::driver_thread::{bind_to, one_cpu, set_policy};

/// Waits of a SCHED_FIFO thread end without the CPU that the other one needs, while a SCHED_OTHER thread on its CPU resizes the table, many waiters at a time.
#[test]
fn timeout_of_a_realtime_thread_ends_while_a_normal_thread_resizes() {
    let Some(cpu) = one_cpu() else { return println!("skipped: this user may not have real-time threads") };
    let system = system();
    let domain: Domain = Domain::with_options(&system, ufutex::Options::new());
    assert_eq!(domain.set_slots(2), Ok(()));
    // All in the few buckets of the smallest table, so that a step is long.
    let words: Vec<_> = (0..16 * 20_000).map(|_| AtomicU32::new(0)).collect();
    let mut waiters = idle(20_000);
    let queued: Vec<_> = std::iter::zip(words.iter().step_by(16), &mut waiters)
        .map(|(word, waiter)| queue(&domain, waiter, word))
        .collect();
    let (word, is_over) = (AtomicU32::new(0), AtomicBool::new(false));
    let longest = std::thread::scope(|scope| {
        scope.spawn(|| {
            bind_to(0, cpu);
            while !is_over.load(SeqCst) {
                for slots in [64, 2] {
                    assert_eq!(domain.set_slots(slots), Ok(()));
                }
            }
        });
        let waits = scope.spawn(|| {
            bind_to(0, cpu);
            assert!(set_policy(libc::SCHED_FIFO, 50));
            let options = WaitOptions::new().timeout(Timeout::After(Duration::from_micros(300)));
            let mut longest = Duration::ZERO;
            for _ in 0..300 {
                let begun = cpu_time();
                assert_eq!(domain.wait_with(&word, 0, &options), Err(Error::TimedOut));
                longest = longest.max(cpu_time() - begun);
            }
            is_over.store(true, SeqCst);
            longest
        });
        waits.join().expect("it does not panic")
    });
    assert_eq!(words.iter().step_by(16).map(|word| domain.wake(word, 1)).sum::<usize>(), 20_000);
    drop(queued);
    // By its own CPU time, since the other one may have to wait for a CPU, whatever this one does. A thread that spins goes on
    // as soon as the kernel takes the CPU from real-time threads, after 950 ms.
    assert!(longest < Duration::from_millis(300), "it had {longest:?} of CPU time");
}

/// What the calling thread has had.
fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: room for a time.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) }, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
