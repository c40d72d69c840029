//! Futexes of an ordinary program, which makes no domain: functions on one domain of the process.

use crate::error::Error;
use crate::futex::key::{Key, Target};
use crate::futex::static_domain::StaticDomain;
use crate::futex::wait::WaitOptions;
use crate::sys::clock::Timeout;

static FUTEXES: StaticDomain = StaticDomain::new();

/// Blocks the calling thread while `word`, a reference to an atomic or another [`Target`], holds `expected`, until a wake.
///
/// Returns at once if the word holds another value. Otherwise it returns only when [`wake_one`] or [`wake_all`] has chosen this
/// waiter. The word may hold `expected` again by then: call this in a loop.
///
/// `wait`, [`wait_timeout`], [`wake_one`] and [`wake_all`] use one domain of the process. A program that wants limits,
/// counters, tasks or timers makes a domain of its own, or a [`StaticDomain`]. They need the feature `std`, and do not meet
/// futex(2), the standard library's locks, or another version of this crate.
///
/// ```
/// use std::sync::atomic::{AtomicU32, Ordering::{Acquire, Release}};
///
/// static READY: AtomicU32 = AtomicU32::new(0);
///
/// let waiter = std::thread::spawn(|| {
///     while READY.load(Acquire) == 0 {
///         ufutex::wait(&READY, 0);
///     }
/// });
/// READY.store(1, Release);
/// ufutex::wake_one(&READY);
/// waiter.join().unwrap();
/// ```
///
/// # After fork(2)
/// The child's copy of the domain may have locks and waiters of threads that the child does not have. So the child calls
/// [`abandon_after_fork`] before it uses these functions. No wake of one process reaches the other, not even in shared memory.
///
/// # Panics
/// If there is no memory for the domain, if 2^24 threads wait already, or if the target cannot be read.
#[inline]
pub fn wait<T: Target>(word: T, expected: T::Value) {
    let _is_woken = ended(FUTEXES.get().and_then(|domain| domain.wait(word, expected)));
}

/// As [`wait`], but no longer than `timeout`: a [`Duration`](std::time::Duration), [`Instant`](std::time::Instant) or
/// [`Timeout`]. Returns `false` if the time was up, and `true` if a wake came or the word does not hold `expected`.
///
/// ```
/// use std::{sync::atomic::AtomicU32, time::Duration};
///
/// let word = AtomicU32::new(0);
/// assert!(!ufutex::wait_timeout(&word, 0, Duration::from_millis(1)));
/// assert!(ufutex::wait_timeout(&word, 1, Duration::from_millis(1))); // it holds 0
/// ```
///
/// # Panics
/// As for `wait`.
#[inline]
pub fn wait_timeout<T: Target>(word: T, expected: T::Value, timeout: impl Into<Timeout>) -> bool {
    let options = WaitOptions::new().timeout(timeout);
    ended(FUTEXES.get().and_then(|domain| domain.wait_with(word, expected, &options)))
}

/// Wakes one thread that waits for `word`, if there is one. Takes a reference or the word's [`Address`](crate::Address): the
/// word is not accessed, and may have been freed already.
///
/// Change the word first. Then a thread that waits for the old value either sleeps, and can be woken, or will not sleep. No
/// memory is allocated. Unlike futex(2), signal handlers must not call it: the interrupted thread may hold the bucket's lock.
#[inline]
pub fn wake_one<K: Key>(word: K) {
    FUTEXES.wake_one(word);
}

/// Wakes all threads that wait for `word`: see [`wake_one`]. More than 16 need memory, or are woken in several steps.
#[inline]
pub fn wake_all<K: Key>(word: K) {
    FUTEXES.wake_all(word);
}

/// In the child of fork(2): gives the process's copy of the domain up. [`wait`] and its like go on with a new one. See
/// [`System::abandon_after_fork`](crate::System::abandon_after_fork).
///
/// # Safety
/// The process is a child of fork(2) that has not started a thread yet. The calling thread is in none of these functions.
pub unsafe fn abandon_after_fork() {
    // SAFETY: as for this function. Nothing borrows the domain outside of these functions.
    unsafe { FUTEXES.abandon_after_fork() };
}

#[inline]
#[track_caller]
fn ended(result: Result<(), Error>) -> bool {
    match result {
        Ok(()) | Err(Error::Again) => true,
        Err(Error::TimedOut) => false,
        Err(error) => panic!("the process's futexes: {error}"),
    }
}
