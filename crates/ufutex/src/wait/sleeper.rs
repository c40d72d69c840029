//! Where a thread sleeps that may be told by several wakes, or be interrupted: a word of its own, apart from the
//! entries that stand in queues.
//!
//! A wake that has taken an entry raises `TOLD` here before it gives the entry back, and then wakes by address. So who
//! finds `TOLD` knows that some entry of its own has been taken, and is about to be given back: it looks for it, and
//! waits for the last few instructions of the waker if it has to. It never sleeps on a wake that has been announced.

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

/// A wake has been announced since the sleeper looked last.
const TOLD: u32 = 1;
/// An interrupt, until somebody takes it back.
const INTERRUPTED: u32 = 2;

/// Where one thread sleeps.
pub(crate) struct Sleeper {
    word: Parker,
    /// 1 while a thread uses it: two would steal each other's wakes.
    #[cfg(feature = "std")]
    in_use: AtomicU32,
    /// Shows a model who uses it after its end.
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
    /// One of its entries has been taken off its queue, or prodded.
    Told,
    /// By [`Sleeper::interrupt`].
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

    /// For the calling thread alone; `None` while another one uses it.
    #[cfg(feature = "std")]
    pub(crate) fn occupy(&self) -> Option<InUse<'_>> {
        // [N]: Acquire pairs with the Release of the last user's end.
        (self.in_use.swap(1, Ordering::Acquire) == 0).then(|| InUse(self))
    }

    /// Announces a wake. The caller gives the entry back and wakes at the address then.
    pub(crate) fn tell(&self) -> Address {
        #[cfg(feature = "loom")]
        self.life.with(|_| ());
        self.word.raise(TOLD)
    }

    /// Ends the sleep that goes on, or the next one, until [`clear`](Self::clear).
    pub(crate) fn interrupt(&self) {
        self.word.raise(INTERRUPTED).wake();
    }

    /// No interrupt any more.
    pub(crate) fn clear(&self) {
        self.word.take_down(INTERRUPTED);
    }

    /// Whether an interrupt waits to be cleared.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.word.load(Ordering::Acquire) & INTERRUPTED != 0 // [N]
    }

    /// Sleeps until it is told, or interrupted, or the deadline passes.
    #[cfg(feature = "std")]
    pub(crate) fn sleep(&self, deadline: Option<&Deadline>) -> Slept {
        loop {
            let before = self.word.take_down(TOLD); // [N]
            if before & TOLD != 0 && !mutant(Mutant::SleeperForgets) {
                return Slept::Told;
            }
            if before & INTERRUPTED != 0 {
                return Slept::Interrupted;
            }
            // The kernel rounds a sleep up by the thread's timer slack, even one that has ended before it began.
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
