//! Blocks a thread while a word holds a value. The options of all waits.

use core::num::NonZeroU32;

use super::domain::Domain;
use super::key::Target;
use super::priority::{NORMAL, Priority};
use crate::error::Error;
use crate::sys::clock::Timeout;
use crate::sys::setters::{default_is_new, setters};

/// The options of a wait: timeout, bitset, priority.
///
/// ```
/// let options = ufutex::WaitOptions::new().timeout(std::time::Duration::from_millis(5));
/// # let _ = options;
/// ```
#[derive(Clone, Copy, Debug)]
pub struct WaitOptions {
    pub(crate) timeout: Option<Timeout>,
    pub(crate) bitset: NonZeroU32,
    pub(crate) priority: u8,
}

default_is_new!(WaitOptions);

impl WaitOptions {
    /// No timeout, any wake, no real-time priority.
    #[must_use]
    pub const fn new() -> Self {
        Self { timeout: None, bitset: NonZeroU32::MAX, priority: NORMAL }
    }

    /// Ends the wait after a length of time, or at a point in time: a [`Timeout`], a [`Duration`](core::time::Duration), or,
    /// with the feature `std`, an `Instant` of the standard library.
    #[must_use]
    pub fn timeout(mut self, timeout: impl Into<Timeout>) -> Self {
        self.timeout = Some(timeout.into());
        self
    }

    /// As [`timeout`](Self::timeout), for a caller that may have none. `None` removes a timeout that was set before.
    ///
    /// ```
    /// let timeout = None::<std::time::Duration>;
    /// let options = ufutex::WaitOptions::new().maybe_timeout(timeout);
    /// # let _ = options;
    /// ```
    #[must_use]
    pub fn maybe_timeout(mut self, timeout: Option<impl Into<Timeout>>) -> Self {
        self.timeout = timeout.map(Into::into);
        self
    }

    setters! {
        /// Only a wake whose bitset has a bit in common with this one wakes the waiter: `FUTEX_WAIT_BITSET`.
        bitset: NonZeroU32 => bitset;
    }

    /// Sets the waiter's real-time priority, from 1 to 99 as for sched_setscheduler(2); more counts as 99. Waiters with a
    /// higher one are woken first, waiters without one, as with `0`, last.
    #[must_use]
    pub const fn realtime_priority(mut self, priority: u8) -> Self {
        self.priority = Priority::realtime(priority).level();
        self
    }
}

/// A wait with a timeout, for `restart_syscall` to continue after an interruption: [`Task::restart`](crate::Task::restart).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RestartBlock {
    /// The address of the word.
    pub address: u64,
    /// The value that the word has to hold.
    pub expected: u32,
    /// The wait's bitset.
    pub bitset: NonZeroU32,
    /// Whether the call had `FUTEX_PRIVATE_FLAG`.
    pub is_private: bool,
    /// The wait's deadline.
    pub timeout: Timeout,
}

// A wait that does not sleep is inlined: a call, and the registers that are saved for a loop out of line, cost a fifth of it.

impl Domain {
    /// Blocks the calling thread while the word holds `expected`: `FUTEX_WAIT`.
    ///
    /// `Ok` means that a wake of this word has come, and the thread sees what the waking thread did before it. Still call it in
    /// a loop that checks the word: a late wake of a lock that has been freed (see [`Address`](crate::Address)) may find the
    /// waiter of what lies there by now. A signal does not end the wait. The word is loaded with Acquire ordering.
    ///
    /// # Errors
    /// [`Error::Again`] if the word does not hold `expected`, [`Error::Fault`] if it cannot be read, [`Error::Invalid`] if it
    /// cannot hold it at all, [`Error::NoMemory`] if [`max_waiters`](crate::DomainOptions::max_waiters) wait already.
    #[inline(always)]
    pub fn wait<T: Target>(&self, target: T, expected: T::Value) -> Result<(), Error> {
        self.wait_with(target, expected, &const { WaitOptions::new() })
    }

    /// As [`wait`](Self::wait), with a timeout, a bitset, a priority: `FUTEX_WAIT_BITSET`.
    ///
    /// ```
    /// use std::sync::atomic::AtomicU32;
    /// use std::time::{Duration, Instant};
    /// use ufutex::{Domain, Error, System, WaitOptions};
    /// let domain = Domain::new(&System::new());
    /// let (word, ms) = (AtomicU32::new(0), Duration::from_millis(1));
    /// let ended = domain.wait_with(&word, 0, &WaitOptions::new().timeout(Instant::now() + ms));
    /// assert_eq!(ended, Err(Error::TimedOut));
    /// ```
    ///
    /// # Errors
    /// As for `wait`, and [`Error::TimedOut`].
    #[inline(always)]
    pub fn wait_with<T: Target>(&self, target: T, expected: T::Value, options: &WaitOptions) -> Result<(), Error> {
        if !target.can_hold(expected) {
            return Err(Error::Invalid);
        }
        let wait_path = self.wait_path;
        if wait_path.is_counted() {
            return self.wait_and_count(&target, expected, options);
        }
        if wait_path.has_early_return_uncounted() && target.load().is_ok_and(|value| value != expected) {
            return Err(Error::Again);
        }
        let deadline = options.timeout.map(|timeout| self.begin(timeout));
        let matched = self.lock_and_compare(&target, expected)?;
        self.block(matched, options, deadline)
    }

    /// As `wait_with`, if operations are counted. Not inlined, so that other waits are no slower.
    #[cold]
    #[inline(never)]
    fn wait_and_count<T: Target>(&self, target: &T, expected: T::Value, options: &WaitOptions) -> Result<(), Error> {
        let deadline = options.timeout.map(|timeout| self.begin(timeout));
        let matched = self.lock_if_equal(target, expected)?;
        self.block(matched, options, deadline)
    }
}
