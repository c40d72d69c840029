//! A word that threads sleep on, in a model checker: on a mutex and a condition variable. A thread that would sleep for
//! ever is a deadlock, which the checker reports.

use core::num::NonZeroU32;

use super::clock::Deadline;
use super::platform::PlatformRef;
use crate::sync::{AtomicU32, Condvar, Mutex, Ordering};

/// Why [`Parker::park`] returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParkEnd {
    /// The thread was woken, or woke up for no reason. The caller checks the word again.
    Awake,
    /// The deadline passed.
    TimedOut,
}

pub struct Parker {
    word: AtomicU32,
    mutex: Mutex<()>,
    awake: Condvar,
}

impl Parker {
    pub fn new(value: u32) -> Self {
        Self { word: AtomicU32::new(value), mutex: Mutex::new(()), awake: Condvar::new() }
    }

    #[inline(always)]
    pub fn load(&self, order: Ordering) -> u32 {
        self.word.load(order)
    }

    #[inline(always)]
    pub fn store(&self, value: u32, order: Ordering) {
        self.word.store(value, order);
    }

    /// Replaces `current` by `new`. If the word holds something else, it stays, and the call orders nothing.
    ///
    /// # Errors
    /// The word's value, if it is not `current`.
    pub fn compare_exchange(&self, current: u32, new: u32, order: Ordering) -> Result<u32, u32> {
        self.word.compare_exchange(current, new, order, Ordering::Relaxed)
    }

    /// Sets `bits` without waking any thread. Returns the previous value.
    pub fn raise_to(&self, bits: u32, order: Ordering) -> u32 {
        self.word.fetch_or(bits, order)
    }

    /// Adds 1. For words whose every value differs from the last, so that a sleeper notices each change. Orders
    /// nothing.
    pub fn count(&self) {
        self.word.fetch_add(1, Ordering::Relaxed);
    }

    /// Clears `bits`. Returns the previous value. Its Release is for a thread that calls `raise` later, which sees
    /// what the caller of this function stored before.
    pub fn take_down(&self, bits: u32) -> u32 {
        self.word.fetch_and(!bits, Ordering::AcqRel) // [N]
    }

    /// With a deadline the model times out at once: that is the interleaving worth exploring.
    pub fn park(&self, _on: PlatformRef, expected: u32, deadline: Option<&Deadline>) -> ParkEnd {
        let guard = self.mutex.lock().expect("a model's mutex is never poisoned");
        if self.word.load(Ordering::Acquire) != expected {
            // [J]
            return ParkEnd::Awake;
        }
        if deadline.is_some() {
            return ParkEnd::TimedOut;
        }
        drop(self.awake.wait(guard));
        ParkEnd::Awake
    }

    /// As `park`: a wake may be for another thread.
    pub fn park_with(&self, expected: u32, deadline: Option<&Deadline>, _bits: NonZeroU32) -> ParkEnd {
        self.park(PlatformRef::HOST, expected, deadline)
    }

    pub fn count_and_wake(&self, _bits: NonZeroU32) {
        let guard = self.mutex.lock().expect("a model's mutex is never poisoned");
        self.word.fetch_add(1, Ordering::Release); // [Y]
        self.awake.notify_all();
        drop(guard);
    }

    pub fn swap(&self, value: u32) -> u32 {
        self.word.swap(value, Ordering::Release) // [J]
    }

    /// # Safety
    /// `this` must be valid up to the store. In a model, where sleepers need the mutex, it must be valid up to the
    /// end.
    pub unsafe fn swap_and_wake(this: *const Self, _on: PlatformRef, value: u32, awake: u32) {
        // SAFETY: a sleeper in a model leaves only with the mutex, so it cannot free the word before we are done.
        let this = unsafe { &*this };
        let guard = this.mutex.lock().expect("a model's mutex is never poisoned");
        let before = this.word.swap(value, Ordering::Release); // [J]
        if before != awake {
            this.awake.notify_one();
        }
        drop(guard);
    }

    /// A sleeper in a model leaves only with the mutex, so it is woken here and not by its address.
    pub fn raise(&self, bits: u32, awake: u32, on: impl FnOnce() -> PlatformRef) -> Option<SleeperAddress> {
        let guard = self.mutex.lock().expect("a model's mutex is never poisoned");
        let before = self.word.fetch_or(bits, Ordering::AcqRel); // [N]
        let sleeps = before & awake == 0;
        if sleeps {
            self.awake.notify_all();
        }
        drop(guard);
        sleeps.then(|| {
            on();
            SleeperAddress
        })
    }

    pub fn wake_all(&self, _on: PlatformRef) -> usize {
        let guard = self.mutex.lock().expect("a model's mutex is never poisoned");
        self.awake.notify_all();
        drop(guard);
        0
    }

    /// Waits until a waker has finished with the word. Then the caller may free it.
    pub fn settle(&self) {
        drop(self.mutex.lock());
    }
}

#[must_use = "the sleeper sleeps on"]
pub struct SleeperAddress;

impl SleeperAddress {
    /// `raise` has woken the sleeper.
    pub fn wake(self) {}
}
