//! Sleepers: words for threads that several wakes, or an interrupt, may notify. Such a thread sleeps on a word that is
//! apart from its entries.
//!
//! A waker that has taken an entry sets `NOTIFIED` in the sleeper before it gives the entry back, and then wakes the
//! thread by address. So a thread that finds `NOTIFIED` set knows that one of its entries has been taken and will be
//! given back, or has been notified while queued. It checks its entries, and if one was taken it waits, if necessary,
//! for the waker's last few instructions. It never sleeps while `NOTIFIED` is set.

#[cfg(feature = "loom")]
use crate::sync::UnsafeCell;
use crate::sync::{AtomicPtr, AtomicU32, Mutant, Ordering, mutant};
use crate::sys::clock::Deadline;
use crate::sys::park::{Address, Parked, Parker};
use crate::sys::platform::PlatformRef;

/// A waker has set this since the sleeping thread last cleared it.
const NOTIFIED: u32 = 1;
/// Interrupted, until the interrupt is cleared.
const INTERRUPTED: u32 = 2;

/// A word that one thread sleeps on.
pub(crate) struct Sleeper {
    word: Parker,
    /// 1 while a thread uses the sleeper. Two threads at once would steal each other's wakes.
    in_use: AtomicU32,
    /// The platform of the thread that uses the sleeper, or used it last.
    on: AtomicPtr<()>,
    /// Lets a model detect an access after the drop.
    #[cfg(feature = "loom")]
    life: UnsafeCell<()>,
}

/// A thread's use of a [`Sleeper`].
pub(crate) struct InUse<'a>(&'a Sleeper);

impl Drop for InUse<'_> {
    fn drop(&mut self) {
        self.0.in_use.store(0, Ordering::Release); // [N]
    }
}

/// Why [`Sleeper::sleep`] returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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
            in_use: AtomicU32::new(0),
            on: AtomicPtr::new(PlatformRef::HOST.into_raw()),
            #[cfg(feature = "loom")]
            life: UnsafeCell::new(()),
        }
    }

    /// Reserves the sleeper for the calling thread, which sleeps by `on`. `None` if another thread uses it.
    pub(crate) fn occupy(&self, on: PlatformRef) -> Option<InUse<'_>> {
        // [N]: Acquire pairs with the Release in the drop of the previous `InUse`.
        if self.in_use.swap(1, Ordering::Acquire) != 0 {
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

    /// Sets `bits`, and returns the address by which the thread is woken, if one sleeps.
    fn raise(&self, bits: u32) -> Address {
        let word = self.word.raise(bits);
        // After the bits: see `take_down`.
        word.on(self.platform())
    }

    /// Sets `NOTIFIED`. After this the caller gives the entry back, and then wakes the thread by the returned address.
    pub(crate) fn notify(&self) -> Address {
        #[cfg(feature = "loom")]
        self.life.with(|_| ());
        self.raise(NOTIFIED)
    }

    /// Ends the current sleep, and each later one, until [`clear`](Self::clear).
    pub(crate) fn interrupt(&self) {
        self.raise(INTERRUPTED).wake();
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
    pub(crate) fn sleep(&self, deadline: Option<&Deadline>) -> Slept {
        let on = self.platform();
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
            let has_passed = !crate::sync::MODEL && deadline.is_some_and(|deadline| on.has_passed(deadline));
            if has_passed || self.word.park(on, before, deadline) == Parked::TimedOut {
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
