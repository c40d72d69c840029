//! A word that threads sleep on: futex(2) itself on Linux, a mutex and a condition variable under a model checker, the
//! scheduler of the virtual cores under `sim`.

use super::clock::Deadline;
use crate::sync::{AtomicU32, Ordering};
#[cfg(feature = "sim")]
use ufutex_coherence::current;

/// Why [`Parker::park`] returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Parked {
    /// The thread was woken, or woke up for no reason. The caller checks the word again.
    Awake,
    /// The deadline passed.
    #[cfg_attr(not(feature = "std"), expect(dead_code, reason = "nobody can sleep there"))]
    TimedOut,
}

/// A 32-bit word, and the threads that sleep on it.
///
/// It may lie on the stack of the thread that sleeps: nothing is allocated and no thread-local state is used.
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

    /// Sets `bits` without waking any thread. Returns the new value. Orders nothing.
    pub fn raise_to(&self, bits: u32) -> u32 {
        self.word.fetch_or(bits, Ordering::Relaxed) | bits
    }

    /// Adds 1. For words whose every value differs from the last, so that a sleeper notices each change. Orders
    /// nothing.
    pub fn count(&self) {
        self.word.fetch_add(1, Ordering::Relaxed);
    }

    /// Clears `bits`. Returns the previous value.
    pub fn take_down(&self, bits: u32) -> u32 {
        self.word.fetch_and(!bits, Ordering::Acquire) // [N]
    }
}

/// The address of a sleeper's word. The word itself may have been freed.
#[must_use = "the sleeper sleeps on"]
pub struct Address(usize);

#[cfg(all(feature = "std", not(any(feature = "loom", feature = "shuttle"))))]
impl Parker {
    /// Sleeps while the word is `expected`, until `deadline` at the latest.
    #[cfg(not(feature = "sim"))]
    pub fn park(&self, expected: u32, deadline: Option<&Deadline>) -> Parked {
        let mut op = libc::FUTEX_WAIT_BITSET | libc::FUTEX_PRIVATE_FLAG;
        let mut until = core::ptr::null();
        let time;
        if let Some(deadline) = deadline {
            if deadline.clock == super::clock::Clock::Realtime {
                op |= libc::FUTEX_CLOCK_REALTIME;
            }
            time = libc::timespec {
                tv_sec: libc::time_t::try_from(deadline.at.as_secs()).unwrap_or(libc::time_t::MAX),
                tv_nsec: deadline.at.subsec_nanos().into(),
            };
            until = &raw const time;
        }
        // SAFETY: the word and `time` outlive the call; futex(2) writes to neither.
        let result = unsafe {
            super::syscall::syscall4(
                libc::SYS_futex,
                self.word.as_ptr().expose_provenance(),
                op as usize,
                expected as usize,
                until.expose_provenance(),
            )
        };
        if result == -(libc::ETIMEDOUT as isize) { Parked::TimedOut } else { Parked::Awake }
    }

    /// Sleeps while the word is `expected`, until `deadline` at the latest. The thread is off its virtual core
    /// meanwhile.
    #[cfg(feature = "sim")]
    pub fn park(&self, expected: u32, deadline: Option<&Deadline>) -> Parked {
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
    pub unsafe fn store_and_wake(this: *const Self, value: u32) {
        // SAFETY: the caller guarantees that it is valid up to the store.
        let word = unsafe { &raw const (*this).word };
        // SAFETY: as above.
        unsafe { (*word).store(value, Ordering::Release) }; // [J]
        wake(word.expose_provenance(), 1);
    }

    /// Wakes all sleepers. Returns their number.
    pub fn wake_all(&self) -> usize {
        wake(self.word.as_ptr().expose_provenance(), i32::MAX)
    }

    /// Sets `bits`. The caller then wakes the threads that sleep on the word by its address alone, because the word may
    /// have been freed by then.
    pub fn raise(&self, bits: u32) -> Address {
        self.word.fetch_or(bits, Ordering::Release); // [N]
        Address(self.word.as_ptr().expose_provenance())
    }
}

#[cfg(all(feature = "std", not(any(feature = "loom", feature = "shuttle"))))]
impl Address {
    /// Wakes the sleeper at the address, if a thread sleeps there.
    pub fn wake(self) {
        wake(self.0, 1);
    }
}

/// Wakes by address, which need not be mapped any more: futex(2) never reads the word of a private wake. If another
/// word is at the address by now, its sleeper sees a spurious wakeup, which every user of futex(2) has to expect. To
/// the kernel `count` is an `int`, and -1 wakes one.
#[cfg(all(feature = "std", not(any(feature = "loom", feature = "shuttle"))))]
fn wake(address: usize, count: i32) -> usize {
    #[cfg(feature = "sim")]
    return current::wake(address, usize::try_from(count).unwrap_or(1));
    #[cfg(not(feature = "sim"))]
    wake_by_call(address, count)
}

#[cfg(feature = "_host")]
fn wake_by_call(address: usize, count: i32) -> usize {
    let op = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: a private wake touches no memory of ours.
    let woken = unsafe { super::syscall::syscall4(libc::SYS_futex, address, op as usize, count as usize, 0) };
    usize::try_from(woken).unwrap_or(0)
}

/// Without an operating system a thread cannot sleep: the loops around `park` spin. If an embedder's threads can be
/// preempted while they hold a bucket's lock, the embedder should do as kernels do, and disable preemption for that
/// time.
#[cfg(not(any(feature = "std", feature = "loom", feature = "shuttle")))]
impl Parker {
    pub fn park(&self, _expected: u32, _deadline: Option<&Deadline>) -> Parked {
        crate::sync::spin_loop();
        Parked::Awake
    }

    /// # Safety
    /// `this` must be valid up to the store.
    pub unsafe fn store_and_wake(this: *const Self, value: u32) {
        // SAFETY: the caller guarantees that it is valid up to the store.
        unsafe { (*this).word.store(value, Ordering::Release) }; // [J]
    }

    pub fn wake_all(&self) -> usize {
        0
    }

    pub fn raise(&self, bits: u32) -> Address {
        self.word.fetch_or(bits, Ordering::Release); // [N]
        Address(0)
    }
}

#[cfg(not(all(feature = "std", not(any(feature = "loom", feature = "shuttle")))))]
impl Address {
    pub fn wake(self) {
        let Self(_nobody_sleeps_there) = self;
    }
}

#[cfg(any(feature = "loom", feature = "shuttle"))]
mod model {
    //! Sleeping in a model checker: a thread that would sleep for ever is a deadlock, which the checker reports.
    use super::{Deadline, Ordering, Parked, Parker};
    use crate::sync::{Condvar, Mutant, Mutex, relaxed_in};

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
        pub fn park(&self, expected: u32, deadline: Option<&Deadline>) -> Parked {
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

        /// # Safety
        /// `this` must be valid up to the store. In a model, where sleepers need the mutex, it must be valid up to the
        /// end.
        pub unsafe fn store_and_wake(this: *const Self, value: u32) {
            // SAFETY: a sleeper in a model leaves only with the mutex, so it cannot free the word before we are done.
            let this = unsafe { &*this };
            let guard = this.model.mutex.lock().expect("a model's mutex is never poisoned");
            this.word.store(value, Ordering::Release); // [J]
            this.model.awake.notify_one();
            drop(guard);
        }

        /// A sleeper in a model leaves only with the mutex, so it is woken here and not by its address.
        pub fn raise(&self, bits: u32) -> super::Address {
            let guard = self.model.mutex.lock().expect("a model's mutex is never poisoned");
            self.word.fetch_or(bits, relaxed_in(Mutant::NotifyRelaxed, Ordering::Release)); // [N]
            self.model.awake.notify_all();
            drop(guard);
            super::Address(0)
        }

        pub fn wake_all(&self) -> usize {
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

/// Waits a moment for another thread's progress: it first spins, for some microseconds in all, and sleeps from then on.
/// If a thread with a real-time priority only yielded, it could keep a thread without one off its CPU for ever.
#[cold]
pub fn wait_a_moment(round: &mut u32) {
    const SPINS: u32 = 100;
    crate::sync::spin_loop();
    if *round < SPINS {
        *round += 1;
        return;
    }
    let mut naps = *round - SPINS;
    // Without a way to sleep, in a model or without an operating system, it spins.
    let _slept = nap(&mut naps);
    *round = SPINS.saturating_add(naps);
}

/// Gives up the CPU to another thread.
pub fn yield_now() {
    #[cfg(feature = "sim")]
    current::yield_now();
    #[cfg(feature = "_host")]
    // SAFETY: sched_yield takes nothing and changes nothing.
    let _always_0 = unsafe { super::syscall::syscall4(libc::SYS_sched_yield, 0, 0, 0, 0) };
}

/// Sleeps for a moment, twice as long each time up to a limit. Returns `false` if there is no way to sleep.
pub fn nap(round: &mut u32) -> bool {
    #[cfg(all(feature = "std", not(any(feature = "loom", feature = "shuttle"))))]
    {
        sleep_for(20_000 << (*round).min(5));
        *round = round.saturating_add(1);
        true
    }
    #[cfg(not(all(feature = "std", not(any(feature = "loom", feature = "shuttle")))))]
    {
        *round = round.saturating_add(1);
        false
    }
}

#[cfg(feature = "sim")]
fn sleep_for(ns: i64) {
    current::nap(ns as u64);
}

/// Does not use libc's sleep, which is a cancellation point of the thread.
#[cfg(feature = "_host")]
fn sleep_for(ns: i64) {
    let length = libc::timespec { tv_sec: 0, tv_nsec: ns as _ };
    // SAFETY: `length` outlives the call. The kernel does not write the remaining time, because no address is given for
    // it.
    unsafe { super::syscall::syscall4(libc::SYS_nanosleep, (&raw const length).expose_provenance(), 0, 0, 0) };
}
