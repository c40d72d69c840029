//! A thread with a real-time priority waits for a thread without one, on the same CPU. It must sleep and not spin,
//! since the other thread gets no CPU time while it spins.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use ufutex::{Domain, Error, Timeout, WaitOptions};

use crate::common::domains::system;
use crate::common::kernel::now;
use crate::common::skipped::skip;
use crate::common::waiters::{idle, queue};
use crate::driver_thread::{bind_to, one_cpu, set_policy};

/// A SCHED_OTHER thread resizes the table, in long steps. Waits of a SCHED_FIFO thread on the same CPU end after little
/// CPU time.
#[test]
fn timeout_of_a_realtime_thread_ends_while_a_normal_thread_resizes() {
    let Some(cpu) = one_cpu() else {
        return skip("this user may not have real-time threads (CAP_SYS_NICE or RLIMIT_RTPRIO)");
    };
    let system = system();
    let domain = Domain::with_options(&system, ufutex::DomainOptions::new());
    assert_eq!(domain.set_slots(2), Ok(()));
    // All waiters are in the few buckets of the smallest table, so that a step of the resize is long.
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
                let begun = now(libc::CLOCK_THREAD_CPUTIME_ID);
                assert_eq!(domain.wait_with(&word, 0, &options), Err(Error::TimedOut));
                longest = longest.max(now(libc::CLOCK_THREAD_CPUTIME_ID) - begun);
            }
            is_over.store(true, SeqCst);
            longest
        });
        waits.join().expect("it does not panic")
    });
    assert_eq!(words.iter().step_by(16).map(|word| domain.wake(word, 1)).sum::<usize>(), 20_000);
    drop(queued);
    // CPU time is compared, because elapsed time depends on other programs. A thread that spun would do so for 950 ms,
    // until the kernel throttles real-time threads.
    assert!(longest < Duration::from_millis(300), "it had {longest:?} of CPU time");
}
