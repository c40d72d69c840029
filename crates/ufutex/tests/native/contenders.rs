//! How a contender for a bucket sleeps. The unlock may miss it, so it sleeps for a bounded time and looks again.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ufutex::platform::{Clock, Deadline, Host, Platform};
use ufutex::scheme::Live;
use ufutex::{Config, Domain, Error, Options, System};

use crate::common::PATIENCE;
use crate::common::asleep::{thread_id, until};
use crate::common::guest_memory::GuestMemory;
use crate::common::patient::within_patience;

/// `ASLEEP` in `lock/state.rs`: what a contender expects in the word that it sleeps on, unless a contender is starving.
const ASLEEP: u32 = 1;

/// Runs `meanwhile` while one thread holds a bucket's lock and another one, whose number it gets, contends for it. Then
/// the lock is released, and both threads have to end.
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

fn system_on<P: Platform>() -> System {
    System::with_config(Config::new().platform::<P>()).expect("the memory is there")
}

/// A platform that loses every wake. Its first sleeps end at once, and move its clock to their deadlines. Later the
/// clock stands still, and `park` only yields.
struct Deaf;

/// The time on `Deaf`'s clock, in nanoseconds.
static NOW: AtomicU64 = AtomicU64::new(0);
/// Of the first sleeps by `Deaf`: the value that was expected, and how long the sleep was.
static SLEEPS: Mutex<Vec<(u32, Duration)>> = Mutex::new(Vec::new());
const FIRST_SLEEPS: usize = 12;

impl Platform for Deaf {
    fn park(_word: &AtomicU32, expected: u32, deadline: Option<Deadline>) {
        let Deadline { at, .. } = deadline.expect("nobody sleeps for ever where no wake comes");
        let mut sleeps = SLEEPS.lock().expect("not poisoned");
        if sleeps.len() < FIRST_SLEEPS {
            sleeps.push((expected, at.saturating_sub(Self::now(Clock::Monotonic))));
            NOW.store(at.as_nanos() as u64, SeqCst);
        }
        drop(sleeps);
        Host::yield_now();
    }
    fn unpark(_word: *const AtomicU32, _count: usize) -> usize {
        0
    }
    fn now(_clock: Clock) -> Duration {
        Duration::from_nanos(NOW.load(SeqCst))
    }
}

/// It expects `ASLEEP` each time: it does not become starving, since no other thread has taken the lock.
#[test]
fn contender_that_is_not_woken_sleeps_twice_as_long_each_time() {
    let first_sleeps = || SLEEPS.lock().expect("not poisoned").clone();
    while_one_contends(&system_on::<Deaf>(), |_| {
        until("the contender has slept", || first_sleeps().len() == FIRST_SLEEPS);
    });
    let expected: Vec<_> = (0..FIRST_SLEEPS).map(|i| (ASLEEP, Duration::from_millis(1 << i))).collect();
    assert_eq!(first_sleeps(), expected);
}

/// The host's platform without deadlines: a thread sleeps until it is woken.
struct Patient;

/// How many sleeps by `Patient` have begun.
static BEGUN: AtomicU32 = AtomicU32::new(0);

impl Platform for Patient {
    fn park(word: &AtomicU32, expected: u32, _deadline: Option<Deadline>) {
        BEGUN.fetch_add(1, SeqCst);
        Host::park(word, expected, None);
    }
    fn unpark(word: *const AtomicU32, count: usize) -> usize {
        Host::unpark(word, count)
    }
    fn now(clock: Clock) -> Duration {
        Host::now(clock)
    }
}

/// The unlock has to wake the contender, whose sleep does not end by itself here. It sees `contended`, which was raised
/// long before.
#[test]
fn unlock_wakes_a_contender_that_sleeps() {
    while_one_contends(&system_on::<Patient>(), |_| until("the contender sleeps", || BEGUN.load(SeqCst) != 0));
}

#[cfg(target_os = "linux")]
mod on_the_host {
    use std::io;

    use super::*;
    use crate::common::asleep::sleeps_in;
    use crate::common::domains::system;

    /// What it expects if a contender is starving.
    const STARVING: u32 = 3;

    /// `None` if the thread does not sleep as a contender for a bucket; otherwise whether its sleep has a timeout.
    fn contention(thread: i32) -> Option<bool> {
        let (number, [_, _, expected, timeout, ..]) = sleeps_in(thread)?;
        (number == libc::SYS_futex && [ASLEEP, STARVING].map(u64::from).contains(&expected)).then_some(timeout != 0)
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

    /// The error of membarrier(2)'s command for a barrier: `EPERM` in a process that has not registered. `None` if it
    /// succeeds.
    fn barrier() -> Option<i32> {
        // SAFETY: membarrier(2) reads and writes no memory of ours.
        let result = unsafe { libc::syscall(libc::SYS_membarrier, libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) };
        if result == 0 { None } else { io::Error::last_os_error().raw_os_error() }
    }

    /// Registering for membarrier(2) waits for a grace period of RCU: for seconds at worst, if all CPUs are busy.
    #[test]
    fn contender_does_not_register_for_membarrier() {
        match barrier() {
            Some(libc::EPERM) => {}
            Some(error) => return println!("skipped: membarrier(2): {}", io::Error::from_raw_os_error(error)),
            None => return println!("skipped: the process has registered, as some C libraries do"),
        }
        while_one_contends(&system(), |thread| until("the contender sleeps", || contention(thread).is_some()));
        assert_eq!(barrier(), Some(libc::EPERM), "the process has registered");
    }
}
