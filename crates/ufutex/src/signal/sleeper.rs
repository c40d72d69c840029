//! Sleepers: words for threads that several wakes, or an interrupt, may notify. Such a thread sleeps on a word that is
//! apart from its entries.
//!
//! A waker that has taken an entry sets `NOTIFIED` in the sleeper before it gives the entry back, and then wakes the
//! thread by address. So a thread that finds `NOTIFIED` set knows that one of its entries has been taken and will be
//! given back, or has been notified while queued. It never sleeps while `NOTIFIED` is set.
//!
//! A thread that spins before it sleeps sets `SPINNING` meanwhile. It clears the bit together with `NOTIFIED`, before it
//! sleeps. A thread that notifies it and finds the bit set has nobody to wake.
//!
//! A thread that waits sets `IN_USE` meanwhile. If an interrupt is cleared while a wait is under way, `clear` leaves
//! `CLEARED` in its place, by which the wait still ends. The wait takes the bit down with `IN_USE`.

use core::time::Duration;

use crate::sync::{AtomicPtr, Ordering};
use crate::sys::clock::Deadline;
use crate::sys::park::{ParkEnd, Parker, SleeperAddress};
use crate::sys::platform::PlatformRef;

/// A waker has set this since the sleeping thread last cleared it.
const NOTIFIED: u32 = 1;
/// Interrupted, until the interrupt is cleared.
const INTERRUPTED: u32 = 2;
/// The thread is awake and watches the word.
const SPINNING: u32 = 4;
/// A wait is under way. Two threads that waited at once would steal each other's wakes.
const IN_USE: u32 = 8;
/// The wait that is under way has been interrupted, and the interrupt has been cleared since.
const CLEARED: u32 = 16;

/// A word that one thread sleeps on.
pub struct Sleeper {
    word: Parker,
    /// The platform of the thread that uses the sleeper, or used it last.
    on: AtomicPtr<()>,
}

/// A thread's use of a [`Sleeper`].
pub(crate) struct InUse<'a>(&'a Sleeper);

impl Drop for InUse<'_> {
    fn drop(&mut self) {
        self.0.word.take_down(IN_USE | CLEARED); // [N]
    }
}

/// Why [`Sleeper::sleep`] returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Slept {
    /// One of the thread's entries has been taken off its queue, or notified while queued.
    Notified,
    /// [`Sleeper::interrupt`] was called, and [`Sleeper::clear`] perhaps after it.
    Interrupted,
    /// The deadline passed.
    TimedOut,
}

impl Sleeper {
    pub(crate) fn new() -> Self {
        Self { word: Parker::new(0), on: AtomicPtr::new(PlatformRef::HOST.into_raw()) }
    }

    /// Reserves the sleeper for the calling thread, which sleeps by `on`. `None` if another thread uses it.
    pub(crate) fn occupy(&self, on: PlatformRef) -> Option<InUse<'_>> {
        // [N]: Acquire pairs with the Release in the drop of the previous `InUse`.
        if self.word.raise_to(IN_USE, Ordering::Acquire) & IN_USE != 0 {
            return None;
        }
        // Relaxed: a waker sees this store, because it takes the entry under the bucket's lock. An interrupt sees it by
        // `take_down`: see [N] in ORDERING.md.
        self.on.store(on.into_raw(), Ordering::Relaxed);
        Some(InUse(self))
    }

    fn platform(&self) -> PlatformRef {
        // SAFETY: `occupy` and `new` store nothing else.
        unsafe { PlatformRef::from_raw(self.on.load(Ordering::Relaxed)) }
    }

    /// Sets `bits`, and returns the address by which the thread is woken, if one sleeps. `None` if it is spinning.
    fn raise(&self, bits: u32) -> Option<SleeperAddress> {
        self.word.raise(bits, SPINNING, || self.platform())
    }

    /// Sets `NOTIFIED`. After this the caller gives the entry back, and then wakes the thread by the returned address.
    /// `None` if the thread is awake, and will see `NOTIFIED` before it sleeps.
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

    /// Whether an interrupt has come and has not been cleared.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.word.load(Ordering::Acquire) & INTERRUPTED != 0 // [N]
    }

    /// Spins until a wake sets `NOTIFIED`, an interrupt comes, `length` has passed, or the deadline has. Returns whether
    /// one of the first two happened. The caller then calls [`sleep`](Self::sleep), which finds out what it was.
    pub(crate) fn spin(&self, length: Duration, deadline: Option<&Deadline>) -> bool {
        let on = self.platform();
        self.word.raise_to(SPINNING, Ordering::Relaxed);
        // Relaxed: `sleep` checks again.
        on.watch(length, deadline, || self.word.load(Ordering::Relaxed) & (NOTIFIED | INTERRUPTED | CLEARED) != 0)
    }

    /// Sleeps until a wake sets `NOTIFIED`, an interrupt comes, or the deadline passes.
    pub(crate) fn sleep(&self, deadline: Option<&Deadline>) -> Slept {
        let on = self.platform();
        loop {
            let passing = NOTIFIED | SPINNING;
            let before = self.word.take_down(passing); // [N]
            if before & NOTIFIED != 0 {
                return Slept::Notified;
            }
            if before & (INTERRUPTED | CLEARED) != 0 {
                return Slept::Interrupted;
            }
            // The kernel lengthens each sleep by the thread's timer slack, even one whose deadline has passed. So do
            // not begin such a sleep.
            let has_passed = deadline.is_some_and(|deadline| on.has_passed(deadline));
            if has_passed || self.word.park(on, before & !passing, deadline) == ParkEnd::TimedOut {
                return Slept::TimedOut;
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

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn spinning_thread_is_notified_without_a_wake() {
        let sleeper = Sleeper::new();
        let _in_use = sleeper.occupy(PlatformRef::HOST);
        assert!(!sleeper.spin(Duration::ZERO, None), "nothing has happened");
        assert!(sleeper.notify().is_none(), "it still spins");
        assert!(sleeper.spin(HOUR, None));
        assert_eq!(sleeper.sleep(None), Slept::Notified);
        assert!(sleeper.notify().is_some(), "it may sleep again");
    }

    #[test]
    fn spinning_ends_with_an_interrupt() {
        let sleeper = Sleeper::new();
        let _in_use = sleeper.occupy(PlatformRef::HOST);
        sleeper.interrupt();
        assert!(sleeper.spin(HOUR, None));
        assert_eq!(sleeper.sleep(None), Slept::Interrupted);
    }

    #[test]
    fn spinning_ends_at_the_deadline() {
        let sleeper = Sleeper::new();
        let _in_use = sleeper.occupy(PlatformRef::HOST);
        let now = PlatformRef::HOST.begin(Timeout::After(Duration::ZERO));
        assert!(!sleeper.spin(HOUR, Some(&now)));
        assert_eq!(sleeper.sleep(Some(&now)), Slept::TimedOut);
    }
}
