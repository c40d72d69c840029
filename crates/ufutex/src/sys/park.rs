//! A word that threads sleep on: by the platform, which is futex(2) itself on Linux; on a mutex and a condition
//! variable under a model checker; by the scheduler of the virtual cores under `sim`.

use core::num::NonZeroU32;

use super::clock::Deadline;
use super::platform::PlatformRef;
use crate::sync::{AtomicU32, Ordering};
#[cfg(feature = "sim")]
use ufutex_coherence::current;

/// Why [`Parker::park`] returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Parked {
    /// The thread was woken, or woke up for no reason. The caller checks the word again.
    Awake,
    /// The deadline passed.
    TimedOut,
}

/// A 32-bit word, and the threads that sleep on it.
///
/// It may lie on the stack of the thread that sleeps. Nothing is allocated and no thread-local state is
/// used, except by `platform::AnyStd`.
pub struct Parker {
    word: AtomicU32,
    #[cfg(any(feature = "loom", feature = "shuttle"))]
    model: model::Sleepers,
}

impl Parker {
    pub fn new(value: u32) -> Self {
        Self {
            word: AtomicU32::new(value),
            #[cfg(any(feature = "loom", feature = "shuttle"))]
            model: model::Sleepers::new(),
        }
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
}

/// The address of a sleeper's word. The word itself may have been freed.
pub struct WordAddress(usize);

/// The address of a sleeper's word, and the sleeper's platform.
#[must_use = "the sleeper sleeps on"]
#[cfg_attr(any(feature = "loom", feature = "shuttle"), expect(dead_code, reason = "a model wakes by the word"))]
pub struct Address {
    word: usize,
    on: PlatformRef,
}

impl WordAddress {
    /// The address of a word of that platform's.
    pub fn on(self, on: PlatformRef) -> Address {
        Address { word: self.0, on }
    }
}

#[cfg(not(any(feature = "loom", feature = "shuttle")))]
impl Parker {
    /// Sleeps while the word is `expected`, until `deadline` at the latest.
    #[cfg(not(feature = "sim"))]
    pub fn park(&self, on: PlatformRef, expected: u32, deadline: Option<&Deadline>) -> Parked {
        on.park(&self.word, expected, deadline)
    }

    /// As `park`, with bits by which [`count_and_wake`](Self::count_and_wake) chooses.
    #[cfg(not(feature = "sim"))]
    pub fn park_with(&self, on: PlatformRef, expected: u32, deadline: Option<&Deadline>, bits: NonZeroU32) -> Parked {
        on.park_with(&self.word, expected, deadline, bits)
    }

    /// As `park`: a virtual core's sleep has no bits, and a wake may be for another thread.
    #[cfg(feature = "sim")]
    pub fn park_with(&self, on: PlatformRef, expected: u32, deadline: Option<&Deadline>, _bits: NonZeroU32) -> Parked {
        self.park(on, expected, deadline)
    }

    /// Adds 1, and wakes the sleepers that have one of `bits`.
    pub fn count_and_wake(&self, on: PlatformRef, bits: NonZeroU32) {
        self.word.fetch_add(1, Ordering::Release); // [Y]
        wake_bits(on, self.word.as_ptr().expose_provenance(), bits);
    }

    /// Sleeps while the word is `expected`, until `deadline` at the latest. The thread is off its virtual core
    /// meanwhile.
    #[cfg(feature = "sim")]
    pub fn park(&self, _on: PlatformRef, expected: u32, deadline: Option<&Deadline>) -> Parked {
        let until = deadline.map(|deadline| u64::try_from(deadline.at.as_nanos()).unwrap_or(u64::MAX));
        match current::sleep_while(&self.word, expected, until) {
            current::Slept::TimedOut => Parked::TimedOut,
            current::Slept::Woken | current::Slept::Differs => Parked::Awake,
        }
    }

    /// Stores `value` and wakes one sleeper. The word may be freed as soon as `value` is stored, so the wake uses the
    /// address alone.
    ///
    /// # Safety
    /// `this` must be valid up to the store.
    #[inline]
    pub unsafe fn store_and_wake(this: *const Self, on: PlatformRef, value: u32) {
        // SAFETY: the caller guarantees that it is valid up to the store.
        let word = unsafe { &raw const (*this).word };
        // SAFETY: as above.
        unsafe { (*word).store(value, Ordering::Release) }; // [J]
        wake(on, word.expose_provenance(), 1);
    }

    /// Wakes all sleepers. Returns their number, as far as the platform knows it.
    pub fn wake_all(&self, on: PlatformRef) -> usize {
        wake(on, self.word.as_ptr().expose_provenance(), usize::MAX)
    }

    /// Sets `bits`. The caller then wakes the threads that sleep on the word by its address alone, because the word may
    /// have been freed by then. `None` if the word had one of the bits `awake`: then no thread sleeps on it.
    pub fn raise(&self, bits: u32, awake: u32) -> Option<WordAddress> {
        let before = self.word.fetch_or(bits, Ordering::AcqRel); // [N]
        (before & awake == 0).then(|| WordAddress(self.word.as_ptr().expose_provenance()))
    }
}

#[cfg(not(any(feature = "loom", feature = "shuttle")))]
impl Address {
    /// Wakes the sleeper at the address, if a thread sleeps there.
    pub fn wake(self) {
        wake(self.on, self.word, 1);
    }
}

/// Wakes by address: see [`PlatformRef::unpark`].
#[cfg(not(any(feature = "loom", feature = "shuttle", feature = "sim")))]
fn wake(on: PlatformRef, address: usize, count: usize) -> usize {
    on.unpark(core::ptr::with_exposed_provenance(address), count)
}

#[cfg(not(any(feature = "loom", feature = "shuttle", feature = "sim")))]
fn wake_bits(on: PlatformRef, address: usize, bits: NonZeroU32) {
    on.unpark_bits(core::ptr::with_exposed_provenance(address), bits);
}

#[cfg(feature = "sim")]
fn wake_bits(on: PlatformRef, address: usize, _bits: NonZeroU32) {
    wake(on, address, usize::MAX);
}

#[cfg(feature = "sim")]
fn wake(_on: PlatformRef, address: usize, count: usize) -> usize {
    current::wake(address, count)
}

#[cfg(any(feature = "loom", feature = "shuttle"))]
impl Address {
    pub fn wake(self) {
        let Self { word: _, on: _nobody_sleeps_there } = self;
    }
}

#[cfg(any(feature = "loom", feature = "shuttle"))]
mod model {
    //! Sleeping in a model checker: a thread that would sleep for ever is a deadlock, which the checker reports.
    use super::{Deadline, NonZeroU32, Ordering, Parked, Parker, PlatformRef};
    use crate::sync::{Condvar, Mutant, Mutex, mutant, relaxed_in};

    pub(super) struct Sleepers {
        mutex: Mutex<()>,
        awake: Condvar,
    }

    impl Sleepers {
        pub(super) fn new() -> Self {
            Self { mutex: Mutex::new(()), awake: Condvar::new() }
        }
    }

    impl Parker {
        /// With a deadline the model times out at once: that is the interleaving worth exploring.
        pub fn park(&self, _on: PlatformRef, expected: u32, deadline: Option<&Deadline>) -> Parked {
            let guard = self.model.mutex.lock().expect("a model's mutex is never poisoned");
            if self.word.load(Ordering::Acquire) != expected {
                // [J]
                return Parked::Awake;
            }
            if deadline.is_some() {
                return Parked::TimedOut;
            }
            drop(self.model.awake.wait(guard));
            Parked::Awake
        }

        /// As `park`: a wake may be for another thread.
        pub fn park_with(
            &self,
            on: PlatformRef,
            expected: u32,
            deadline: Option<&Deadline>,
            _bits: NonZeroU32,
        ) -> Parked {
            self.park(on, expected, deadline)
        }

        pub fn count_and_wake(&self, _on: PlatformRef, _bits: NonZeroU32) {
            let guard = self.model.mutex.lock().expect("a model's mutex is never poisoned");
            self.word.fetch_add(1, relaxed_in(Mutant::GroupCountRelaxed, Ordering::Release)); // [Y]
            self.model.awake.notify_all();
            drop(guard);
        }

        /// # Safety
        /// `this` must be valid up to the store. In a model, where sleepers need the mutex, it must be valid up to the
        /// end.
        pub unsafe fn store_and_wake(this: *const Self, _on: PlatformRef, value: u32) {
            // SAFETY: a sleeper in a model leaves only with the mutex, so it cannot free the word before we are done.
            let this = unsafe { &*this };
            let guard = this.model.mutex.lock().expect("a model's mutex is never poisoned");
            this.word.store(value, Ordering::Release); // [J]
            this.model.awake.notify_one();
            drop(guard);
        }

        /// A sleeper in a model leaves only with the mutex, so it is woken here and not by its address.
        pub fn raise(&self, bits: u32, awake: u32) -> Option<super::WordAddress> {
            let looked = mutant(Mutant::NotifyLooksFirst).then(|| self.word.load(Ordering::Relaxed));
            let guard = self.model.mutex.lock().expect("a model's mutex is never poisoned");
            let before = self.word.fetch_or(bits, relaxed_in(Mutant::NotifyRelaxed, Ordering::AcqRel)); // [N]
            let sleeps = looked.unwrap_or(before) & awake == 0;
            if sleeps {
                self.model.awake.notify_all();
            }
            drop(guard);
            sleeps.then_some(super::WordAddress(0))
        }

        pub fn wake_all(&self, _on: PlatformRef) -> usize {
            let guard = self.model.mutex.lock().expect("a model's mutex is never poisoned");
            self.model.awake.notify_all();
            drop(guard);
            0
        }

        /// Waits until a waker has finished with the word. Then the caller may free it.
        pub fn settle(&self) {
            drop(self.model.mutex.lock());
        }
    }
}
