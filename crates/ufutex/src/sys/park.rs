//! A word that threads sleep on, by their platform: on Linux futex(2) itself.

use core::num::NonZeroU32;
use core::ptr::with_exposed_provenance;

use super::clock::Deadline;
use super::host;
use super::platform::PlatformRef;
use crate::sync::{AtomicU32, Ordering};

/// Why [`Parker::park`] returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParkEnd {
    /// The thread was woken, or woke up for no reason: the caller checks the word again.
    Awake,
    TimedOut,
}

/// A 32-bit word, and the threads that sleep on it. It may lie on the stack of the thread that sleeps.
pub struct Parker {
    word: AtomicU32,
}

impl Parker {
    pub fn new(value: u32) -> Self {
        Self { word: AtomicU32::new(value) }
    }

    #[inline(always)]
    pub fn load(&self, order: Ordering) -> u32 {
        self.word.load(order)
    }

    #[inline(always)]
    pub fn store(&self, value: u32, order: Ordering) {
        self.word.store(value, order);
    }

    /// Replaces `current` by `new`. If the word holds something else, returns that, and orders nothing.
    pub fn compare_exchange(&self, current: u32, new: u32, order: Ordering) -> Result<u32, u32> {
        self.word.compare_exchange(current, new, order, Ordering::Relaxed)
    }

    /// Sets `bits` without waking any thread. Returns the previous value.
    pub fn raise_to(&self, bits: u32, order: Ordering) -> u32 {
        self.word.fetch_or(bits, order)
    }

    /// Adds 1, so that a sleeper notices each change. Orders nothing.
    pub fn count(&self) {
        self.word.fetch_add(1, Ordering::Relaxed);
    }

    /// Clears `bits`. Returns the previous value. A thread that calls `raise` later sees what the caller stored before.
    pub fn take_down(&self, bits: u32) -> u32 {
        self.word.fetch_and(!bits, Ordering::AcqRel) // [N]
    }

    pub fn park(&self, on: PlatformRef, expected: u32, deadline: Option<&Deadline>) -> ParkEnd {
        on.park(&self.word, expected, deadline)
    }

    /// Sleeps on the host, if it wakes by bits. [`count_and_wake`](Self::count_and_wake) chooses by them.
    pub fn park_with(&self, expected: u32, deadline: Option<&Deadline>, bits: NonZeroU32) -> ParkEnd {
        host::park(&self.word, expected, deadline, bits)
    }

    pub fn count_and_wake(&self, bits: NonZeroU32) {
        self.word.fetch_add(1, Ordering::Release); // [Y]
        // Each has a bit of its own: with this limit the kernel stops at the last of them.
        host::unpark(&raw const self.word, bits.get().count_ones() as usize, bits);
    }

    /// Stores `value`, and returns what was there. The word may be freed as soon as that is done.
    pub fn swap(&self, value: u32) -> u32 {
        self.word.swap(value, Ordering::Release) // [J]
    }

    /// Stores `value`, and wakes one sleeper unless the word was `awake`. The word may be freed as soon as `value` is
    /// stored, so the wake uses the address alone.
    ///
    /// # Safety
    /// `this` must be valid up to the store.
    #[inline]
    pub unsafe fn swap_and_wake(this: *const Self, on: PlatformRef, value: u32, awake: u32) {
        // SAFETY: the caller guarantees it.
        let word = unsafe { &raw const (*this).word };
        // SAFETY: as above.
        let before = unsafe { (*word).swap(value, Ordering::Release) }; // [J]
        if before != awake {
            on.unpark(word, 1);
        }
    }

    /// Returns the number of sleepers woken, as far as the platform knows it.
    pub fn wake_all(&self, on: PlatformRef) -> usize {
        on.unpark(&raw const self.word, usize::MAX)
    }

    /// Sets `bits`. The caller wakes the sleeper at the returned address. `None` if the word had one of the bits `awake`.
    pub fn raise(&self, bits: u32, awake: u32, on: impl FnOnce() -> PlatformRef) -> Option<SleeperAddress> {
        let before = self.word.fetch_or(bits, Ordering::AcqRel); // [N]
        (before & awake == 0).then(|| SleeperAddress { word: self.word.as_ptr().expose_provenance(), on: on() })
    }
}

/// A sleeper's word, which may have been freed, and the sleeper's platform.
#[must_use = "the sleeper sleeps on"]
pub struct SleeperAddress {
    word: usize,
    on: PlatformRef,
}

impl SleeperAddress {
    pub fn wake(self) {
        self.on.unpark(with_exposed_provenance(self.word), 1);
    }
}
