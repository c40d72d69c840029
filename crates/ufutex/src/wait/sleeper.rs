//! Sleepers: words on which threads sleep that several wakes may notify, or that may be interrupted. They are apart
//! from the entries that are queued.
//!
//! A waker that has taken an entry sets `NOTIFIED` in the sleeper before it gives the entry back, and then wakes the
//! thread by address. So a thread that finds `NOTIFIED` set knows that one of its entries has been taken and will be
//! given back, or has been notified while queued. It checks its entries, and if one was taken it waits, if necessary,
//! for the waker's last few instructions. It never sleeps while `NOTIFIED` is set.

#[cfg(feature = "std")]
use crate::sync::AtomicU32;
use crate::sync::Ordering;
#[cfg(feature = "loom")]
use crate::sync::UnsafeCell;
#[cfg(feature = "std")]
use crate::sync::{Mutant, mutant};
#[cfg(feature = "std")]
use crate::sys::clock::Deadline;
#[cfg(feature = "std")]
use crate::sys::park::Parked;
use crate::sys::park::{Address, Parker};

/// A waker has set this since the sleeping thread last cleared it.
const NOTIFIED: u32 = 1;
/// Interrupted, until the interrupt is cleared.
const INTERRUPTED: u32 = 2;

/// A word that one thread sleeps on.
pub(crate) struct Sleeper {
    word: Parker,
    /// 1 while a thread uses the sleeper. Two threads at once would steal each other's wakes.
    #[cfg(feature = "std")]
    in_use: AtomicU32,
    /// Lets a model detect an access after the drop.
    #[cfg(feature = "loom")]
    life: UnsafeCell<()>,
}

/// A thread's use of a [`Sleeper`].
#[cfg(feature = "std")]
pub(crate) struct InUse<'a>(&'a Sleeper);

#[cfg(feature = "std")]
impl Drop for InUse<'_> {
    fn drop(&mut self) {
        self.0.in_use.store(0, Ordering::Release); // [N]
    }
}

/// Why [`Sleeper::sleep`] returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg(feature = "std")]
pub(crate) enum Slept {
    /// One of the thread's entries has been taken off its queue, or notified while queued.
    Notified,
    /// [`Sleeper::interrupt`] was called.
    Interrupted,
    /// The deadline passed.
    TimedOut,
}

impl Sleeper {
    pub(crate) fn new() -> Self {
        Self {
            word: Parker::new(0),
            #[cfg(feature = "std")]
            in_use: AtomicU32::new(0),
            #[cfg(feature = "loom")]
            life: UnsafeCell::new(()),
        }
    }

    /// Reserves the sleeper for the calling thread. `None` if another thread uses it.
    #[cfg(feature = "std")]
    pub(crate) fn occupy(&self) -> Option<InUse<'_>> {
        // [N]: Acquire pairs with the Release in the drop of the previous `InUse`.
        (self.in_use.swap(1, Ordering::Acquire) == 0).then(|| InUse(self))
    }

    /// Sets `NOTIFIED`. After this the caller gives the entry back, and then wakes the thread by the returned address.
    pub(crate) fn notify(&self) -> Address {
        #[cfg(feature = "loom")]
        self.life.with(|_| ());
        self.word.raise(NOTIFIED)
    }

    /// Ends the current sleep, and each later one, until [`clear`](Self::clear).
    pub(crate) fn interrupt(&self) {
        self.word.raise(INTERRUPTED).wake();
    }

    /// Clears the interrupt.
    pub(crate) fn clear(&self) {
        self.word.take_down(INTERRUPTED);
    }

    /// Whether an interrupt has come and has not been cleared.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.word.load(Ordering::Acquire) & INTERRUPTED != 0 // [N]
    }

    /// Sleeps until a wake sets `NOTIFIED`, an interrupt comes, or the deadline passes.
    #[cfg(feature = "std")]
    pub(crate) fn sleep(&self, deadline: Option<&Deadline>) -> Slept {
        loop {
            let before = self.word.take_down(NOTIFIED); // [N]
            if before & NOTIFIED != 0 && !mutant(Mutant::SleeperForgets) {
                return Slept::Notified;
            }
            if before & INTERRUPTED != 0 {
                return Slept::Interrupted;
            }
            // The kernel lengthens each sleep by the thread's timer slack, even one whose deadline has passed. So do
            // not begin such a sleep.
            let has_passed = !crate::sync::MODEL && deadline.is_some_and(Deadline::has_passed);
            if has_passed || self.word.park(before, deadline) == Parked::TimedOut {
                return Slept::TimedOut;
            }
        }
    }
}

#[cfg(feature = "loom")]
impl Drop for Sleeper {
    fn drop(&mut self) {
        self.life.with_mut(|_| ());
    }
}

impl core::fmt::Debug for Sleeper {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Sleeper").field("is_interrupted", &self.is_interrupted()).finish_non_exhaustive()
    }
}
