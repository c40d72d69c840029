//! Sleepers: words, apart from their entries, for threads that several wakes, or an interrupt, may notify.
//!
//! A waker that has taken an entry sets `NOTIFIED` in the sleeper before it gives the entry back, and then wakes the thread by
//! address. The thread never sleeps while `NOTIFIED` is set.

use crate::error::Error;
use crate::sync::{AtomicPtr, Ordering};
use crate::sys::clock::Deadline;
use crate::sys::park::{ParkEnd, Parker, SleeperAddress};
use crate::sys::platform::{PlatformRef, Watched};
use crate::sys::unwind::Otherwise;

/// A waker has set this since the sleeping thread last cleared it.
const NOTIFIED: u32 = 1;
/// Interrupted, until the interrupt is cleared.
const INTERRUPTED: u32 = 2;
/// The thread watches the word: nobody has to wake it. It clears the bit together with `NOTIFIED`, before it sleeps.
const SPINNING: u32 = 4;
/// A wait is under way. Two at once would steal each other's wakes.
const IN_USE: u32 = 8;
/// The interrupt has been cleared, but still ends the wait that is under way, which clears this bit with `IN_USE`.
const CLEARED: u32 = 16;

/// A word that one thread sleeps on.
pub struct Sleeper {
    word: Parker,
    /// The platform of the thread that uses the sleeper, or used it last.
    on: AtomicPtr<()>,
}

/// Why a wait is ended without a wake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Cause {
    /// The wait is cancelled: by a signal, a kill, or a decision of the program.
    Interrupted,
    /// The time is up.
    TimedOut,
}

impl From<Cause> for Error {
    fn from(cause: Cause) -> Self {
        match cause {
            Cause::Interrupted => Self::Interrupted,
            Cause::TimedOut => Self::TimedOut,
        }
    }
}

impl Sleeper {
    pub(crate) fn new() -> Self {
        Self { word: Parker::new(0), on: AtomicPtr::new(PlatformRef::HOST.into_raw()) }
    }

    /// Reserves the sleeper for the calling thread, which sleeps by `on`, until the result is dropped. `None` if another thread
    /// uses it.
    pub(crate) fn occupy(&self, on: PlatformRef) -> Option<Otherwise<impl FnOnce()>> {
        // [N]: Acquire pairs with the Release of the previous user's end.
        if self.word.raise_to(IN_USE, Ordering::Acquire) & IN_USE != 0 {
            return None;
        }
        // Relaxed: a waker takes the entry under the bucket's lock. An interrupt sees the store by `take_down` ([N]).
        self.on.store(on.into_raw(), Ordering::Relaxed);
        Some(Otherwise::new(|| _ = self.word.take_down(IN_USE | CLEARED))) // [N]
    }

    fn platform(&self) -> PlatformRef {
        // SAFETY: `occupy` and `new` store nothing else.
        unsafe { PlatformRef::from_raw(self.on.load(Ordering::Relaxed)) }
    }

    /// Sets `bits`. Returns the address by which to wake the thread; `None` if it spins.
    fn raise(&self, bits: u32) -> Option<SleeperAddress> {
        self.word.raise(bits, SPINNING, || self.platform())
    }

    /// The caller then gives the entry back, and wakes the thread by the returned address.
    pub(crate) fn notify(&self) -> Option<SleeperAddress> {
        self.raise(NOTIFIED)
    }

    /// Ends the wait that is under way, and each later sleep until [`clear`](Self::clear).
    pub(crate) fn interrupt(&self) {
        if let Some(address) = self.raise(INTERRUPTED) {
            address.wake();
        }
    }

    /// Clears the interrupt for later waits. It still ends the wait that is under way.
    pub(crate) fn clear(&self) {
        let mut before = self.word.load(Ordering::Relaxed);
        loop {
            let still_ends = before & (IN_USE | INTERRUPTED) == IN_USE | INTERRUPTED;
            let after = before & !INTERRUPTED | if still_ends { CLEARED } else { 0 };
            // [N]: the caller sees what was stored before the interrupt was raised.
            match self.word.compare_exchange(before, after, Ordering::Acquire) {
                Ok(_) => return,
                Err(now) => before = now,
            }
        }
    }

    pub(crate) fn is_interrupted(&self) -> bool {
        self.word.load(Ordering::Acquire) & INTERRUPTED != 0 // [N]
    }

    /// Spins until a wake sets `NOTIFIED`, an interrupt comes, `ns` nanoseconds or the deadline have passed, or the thread has lost
    /// its CPU. [`sleep`](Self::sleep) has to follow: it clears `SPINNING`, and returns at once if one of the first two has come.
    pub(crate) fn spin(&self, ns: u64, deadline: Option<&Deadline>) -> Watched {
        let on = self.platform();
        self.word.raise_to(SPINNING, Ordering::Relaxed);
        // Relaxed: `sleep` checks again.
        on.watch(ns, deadline, || self.word.load(Ordering::Relaxed) & (NOTIFIED | INTERRUPTED | CLEARED) != 0)
    }

    /// Sleeps until a wake sets `NOTIFIED` (`None`), an interrupt comes, or the deadline passes.
    pub(crate) fn sleep(&self, deadline: Option<&Deadline>) -> Option<Cause> {
        let on = self.platform();
        loop {
            let passing = NOTIFIED | SPINNING;
            let before = self.word.take_down(passing); // [N]
            if before & NOTIFIED != 0 {
                return None;
            }
            if before & (INTERRUPTED | CLEARED) != 0 {
                return Some(Cause::Interrupted);
            }
            let has_passed = deadline.is_some_and(|deadline| on.has_passed(deadline));
            if has_passed || self.word.park(on, before & !passing, deadline) == ParkEnd::TimedOut {
                return Some(Cause::TimedOut);
            }
        }
    }
}

impl core::fmt::Debug for Sleeper {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Sleeper").field("is_interrupted", &self.is_interrupted()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::clock::Timeout;
    use core::time::Duration;

    const HOUR_NS: u64 = 3_600_000_000_000;

    fn is_done(watched: Watched) -> bool {
        matches!(watched, Watched::Done { .. } | Watched::DoneBefore)
    }

    #[test]
    fn spinning_thread_is_notified_without_a_wake() {
        let sleeper = Sleeper::new();
        let _in_use = sleeper.occupy(PlatformRef::HOST);
        assert!(!is_done(sleeper.spin(0, None)), "nothing has happened");
        assert!(sleeper.notify().is_none(), "it still spins");
        assert!(is_done(sleeper.spin(HOUR_NS, None)));
        assert_eq!(sleeper.sleep(None), None);
        assert!(sleeper.notify().is_some(), "it may sleep again");
    }

    #[test]
    fn spinning_ends_with_an_interrupt() {
        let sleeper = Sleeper::new();
        let _in_use = sleeper.occupy(PlatformRef::HOST);
        sleeper.interrupt();
        assert!(is_done(sleeper.spin(HOUR_NS, None)));
        assert_eq!(sleeper.sleep(None), Some(Cause::Interrupted));
    }

    #[test]
    fn spinning_ends_at_the_deadline() {
        let sleeper = Sleeper::new();
        let _in_use = sleeper.occupy(PlatformRef::HOST);
        let now = PlatformRef::HOST.begin(Timeout::After(Duration::ZERO));
        assert!(!is_done(sleeper.spin(HOUR_NS, Some(&now))));
        assert_eq!(sleeper.sleep(Some(&now)), Some(Cause::TimedOut));
    }
}
