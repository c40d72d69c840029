//! How a contender for a bucket sleeps. The wake may miss it, so it sleeps for a bounded time and checks the lock again.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ufutex::platform::{Clock, Deadline, Host, Platform};
use ufutex::scheme::Live;
use ufutex::{Config, Domain, Error, Options, System};

use crate::common::PATIENCE;
use crate::common::asleep::{thread_id, until};
use crate::common::domains::system;
use crate::common::guest_memory::GuestMemory;
use crate::common::patient::within_patience;

/// Runs `meanwhile` while one thread holds a bucket's lock and another one, whose number it gets, contends for it.
fn while_one_contends(system: &System, meanwhile: impl FnOnce(i32)) {
    let domain = Arc::new(Domain::<Live>::with_options_in(system, Options::new().early_return(false)));
    let words = Arc::new(GuestMemory::new());
    let (send, is_held) = channel();
    let (release, released) = channel::<()>();
    let released = Mutex::new(released);
    // A wait loads its word with the bucket locked.
    let memory = GuestMemory::of_words(&words, move |_, _| {
        send.send(()).expect("the test waits for it");
        _ = released.lock().expect("not poisoned").recv();
        Ok(())
    });
    let its_domain = domain.clone();
    let holder = std::thread::spawn(move || its_domain.wait(memory.target(0), 1));
    is_held.recv_timeout(PATIENCE).expect("the word is loaded");
    let (send, thread) = channel();
    let contender = std::thread::spawn(move || {
        send.send(thread_id()).expect("the test waits for it");
        domain.wait(words.target(0), 1)
    });
    meanwhile(thread.recv_timeout(PATIENCE).expect("the contender begins"));
    drop(release);
    let results = within_patience("a wait", || [holder, contender].map(|waiter| waiter.join().expect("no panic")));
    assert_eq!(results, [Err(Error::Again); 2]);
}

/// A platform that loses every wake. Its clock stands still, but for sleeps: each ends at once, at its deadline.
struct Deaf;

/// The time on `Deaf`'s clock, in nanoseconds.
static NOW: AtomicU64 = AtomicU64::new(0);
/// How long each sleep by `Deaf` was.
static SLEEPS: Mutex<Vec<Duration>> = Mutex::new(Vec::new());

impl Platform for Deaf {
    fn park(_word: &AtomicU32, _expected: u32, deadline: Option<Deadline>) {
        let Deadline { at, .. } = deadline.expect("nobody sleeps for ever where no wake comes");
        SLEEPS.lock().expect("not poisoned").push(at.saturating_sub(Self::now(Clock::Monotonic)));
        NOW.store(at.as_nanos() as u64, SeqCst);
        std::thread::yield_now();
    }
    fn unpark(_word: *const AtomicU32, _count: usize) -> usize {
        0
    }
    fn now(_clock: Clock) -> Duration {
        Duration::from_nanos(NOW.load(SeqCst))
    }
    fn yield_now() {
        Host::yield_now();
    }
}

#[test]
fn contender_whose_wake_is_lost_looks_again_after_twice_the_time() {
    const LOOKS: usize = 12;
    let system = System::with_config(Config::new().platform::<Deaf>()).expect("the memory is there");
    while_one_contends(&system, |_| {
        until("the contender has slept", || SLEEPS.lock().expect("not poisoned").len() >= LOOKS);
    });
    let sleeps = SLEEPS.lock().expect("not poisoned");
    let expected: Vec<_> = (0..LOOKS).map(|i| Duration::from_millis(1 << i)).collect();
    assert_eq!(sleeps[..LOOKS], expected);
}

#[cfg(target_os = "linux")]
mod on_the_host {
    use super::*;
    use crate::common::asleep::sleeps_in;

    /// What `linux/membarrier.h` calls this command.
    const PRIVATE_EXPEDITED: libc::c_long = 1 << 3;

    /// Whether the thread sleeps as a contender for a bucket, and if it does, whether for a bounded time.
    fn contention(thread: i32) -> Option<bool> {
        // `ASLEEP` and `STARVING` in `lock/state.rs`.
        const CONTENDED: [u64; 2] = [1, 3];
        let (number, [_, _, expected, timeout, ..]) = sleeps_in(thread)?;
        (number == libc::SYS_futex && CONTENDED.contains(&expected)).then_some(timeout != 0)
    }

    #[test]
    fn contender_sleeps_for_a_bounded_time() {
        while_one_contends(&system(), |thread| {
            let mut is_bounded = None;
            until("the contender sleeps", || {
                is_bounded = contention(thread);
                is_bounded.is_some()
            });
            assert_eq!(is_bounded, Some(true));
        });
    }

    /// Registering for membarrier(2) waits for a grace period of RCU: for seconds, if all CPUs are busy.
    #[test]
    fn contender_does_not_register_for_membarrier() {
        while_one_contends(&system(), |thread| {
            until("the contender sleeps", || contention(thread).is_some());
        });
        // SAFETY: membarrier(2) reads and writes no memory of ours.
        let result = unsafe { libc::syscall(libc::SYS_membarrier, PRIVATE_EXPEDITED, 0, 0) };
        assert_eq!(result, -1, "the process is registered");
    }
}
