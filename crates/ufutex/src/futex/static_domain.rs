//! A domain in a static, made by its first wait.

use core::num::NonZeroU32;
use core::ops::Deref;
use core::pin::Pin;
use core::task::Waker;

use super::config::{Config, Options};
use super::domain::Domain;
use super::key::{Key, Target};
#[cfg(feature = "requeue")]
use super::requeue::{Requeue, Requeued};
use super::system::System;
use super::task::Task;
use super::wait::WaitOptions;
use super::waiter::{Queued, Waiter};
use super::wake_op::WakeOp;
use crate::error::Error;
use crate::sync::wake_barrier;
use crate::sys::lazy::Lazy;

/// A [`Domain`] with a [`System`] of its own that can be the value of a static. The first wait makes both.
///
/// ```
/// use std::sync::atomic::{AtomicU32, Ordering::{Acquire, Release}};
/// use ufutex::StaticDomain;
///
/// static FUTEXES: StaticDomain = StaticDomain::new();
/// static WORD: AtomicU32 = AtomicU32::new(0);
///
/// let waiter = std::thread::spawn(|| {
///     while WORD.load(Acquire) == 0 {
///         let _ = FUTEXES.wait(&WORD, 0);
///     }
/// });
/// WORD.store(1, Release);
/// FUTEXES.wake(&WORD, 1);
/// waiter.join().unwrap();
/// ```
///
/// A wake never makes the domain: as long as there is none, there are no waiters. Every other method listed here makes
/// the domain, even if it does not wait, and returns an error if that fails. The remaining methods of [`Domain`] are
/// reached through `Deref`, which makes the domain too, but panics if it cannot: call [`get`](Self::get) before.
///
/// It needs no `std`. No thread waits for another that makes the domain: each thread that finds none makes one, and all
/// use the one that was stored first.
pub struct StaticDomain {
    domain: Lazy<Domain>,
    config: Config,
    options: Options,
}

impl StaticDomain {
    /// With the default settings.
    #[expect(clippy::new_without_default, reason = "a constant default needs a name")]
    #[must_use]
    pub const fn new() -> Self {
        Self::with(Config::new(), Options::new())
    }

    /// With a system of this configuration, and a domain with these options.
    ///
    /// ```
    /// use ufutex::{Config, Options, StaticDomain};
    ///
    /// static FUTEXES: StaticDomain = StaticDomain::with(Config::new().cpus(4), Options::new().counters(true));
    /// ```
    #[must_use]
    pub const fn with(config: Config, options: Options) -> Self {
        Self { domain: Lazy::new(), config, options }
    }

    /// The domain. The first call makes it.
    ///
    /// # Errors
    /// [`Error::NoMemory`]; the next call tries again. [`Error::Invalid`] if the configuration is invalid: see
    /// [`System::with_config`].
    #[inline]
    pub fn get(&self) -> Result<&Domain, Error> {
        match self.domain.get() {
            Some(domain) => Ok(domain),
            None => self.make(),
        }
    }

    /// The domain if it has been made, for a wake. `None` means that no waiter is queued for this wake. A thread that
    /// makes the domain later sees everything that the caller stored before, so its wait finds the word changed.
    #[inline(always)]
    fn found_by_wake(&self) -> Option<&Domain> {
        self.domain.get().or_else(|| {
            wake_barrier(); // [B] pairs with the [A] of the first wait
            self.domain.get()
        })
    }

    /// Gives this process's copy of the domain up, in the child of fork(2). The next wait makes a new one: see
    /// [`System::abandon_after_fork`].
    ///
    /// # Safety
    /// As there. Also, no reference to the domain is used any more, and nothing that borrows it.
    pub unsafe fn abandon_after_fork(&self) {
        // SAFETY: as for this function.
        unsafe {
            if let Some(domain) = self.domain.get() {
                domain.system.abandon_after_fork();
            }
            self.domain.forget();
        }
    }

    #[cold]
    fn make(&self) -> Result<&Domain, Error> {
        self.domain.get_or_make(|| {
            let system = System::with_config(self.config.clone())?;
            Ok(Domain::with_options(&system, self.options))
        })
    }

    /// See [`Domain::wait`].
    ///
    /// # Errors
    /// As there, and as for [`get`](Self::get).
    #[inline]
    pub fn wait<T: Target>(&self, target: T, expected: T::Value) -> Result<(), Error> {
        self.get()?.wait(target, expected)
    }

    /// See [`Domain::wait_with`].
    ///
    /// # Errors
    /// As there, and as for [`get`](Self::get).
    #[inline]
    pub fn wait_with<T: Target>(&self, target: T, expected: T::Value, options: &WaitOptions) -> Result<(), Error> {
        self.get()?.wait_with(target, expected, options)
    }

    /// See [`Domain::wait_any`].
    ///
    /// # Errors
    /// As there, and as for [`get`](Self::get).
    pub fn wait_any<T: Target>(&self, words: &[(T, T::Value)], options: &WaitOptions) -> Result<usize, Error> {
        self.get()?.wait_any(words, options)
    }

    /// See [`Domain::prepare`].
    ///
    /// # Errors
    /// As there, and as for [`get`](Self::get).
    pub fn prepare<'w, 'd, T: Target>(
        &'d self,
        waiter: Pin<&'w mut Waiter<'d>>,
        target: T,
        expected: T::Value,
        options: &WaitOptions,
    ) -> Result<Queued<'w, 'd>, Error> {
        self.get()?.prepare(waiter, target, expected, options)
    }

    /// See [`Domain::prepare_with`].
    ///
    /// # Errors
    /// As there, and as for [`get`](Self::get).
    pub fn prepare_with<'w, 'd, T: Target>(
        &'d self,
        waiter: Pin<&'w mut Waiter<'d>>,
        target: T,
        expected: T::Value,
        options: &WaitOptions,
        waker: Waker,
    ) -> Result<Queued<'w, 'd>, Error> {
        self.get()?.prepare_with(waiter, target, expected, options, waker)
    }

    /// See [`Domain::wake`]. Returns 0 without making the domain if there has been no wait.
    #[inline]
    pub fn wake<K: Key>(&self, key: K, count: usize) -> usize {
        self.found_by_wake().map_or(0, |domain| domain.wake(key, count))
    }

    /// See [`Domain::wake_bitset`]. Returns 0 without making the domain if there has been no wait.
    #[inline]
    pub fn wake_bitset<K: Key>(&self, key: K, count: usize, bitset: NonZeroU32) -> usize {
        self.found_by_wake().map_or(0, |domain| domain.wake_bitset(key, count, bitset))
    }

    /// See [`Domain::try_wake_bitset`]. Returns 0 without making the domain if there has been no wait.
    ///
    /// # Errors
    /// As there.
    pub fn try_wake_bitset<K: Key>(&self, key: K, count: usize, bitset: NonZeroU32) -> Result<usize, Error> {
        self.found_by_wake().map_or(Ok(0), |domain| domain.try_wake_bitset(key, count, bitset))
    }

    /// See [`Domain::requeue`].
    ///
    /// # Errors
    /// As there, and as for [`get`](Self::get).
    #[cfg(feature = "requeue")]
    pub fn requeue<K: Key, U: Key>(&self, from: K, to: U, most: Requeue) -> Result<Requeued, Error> {
        self.get()?.requeue(from, to, most)
    }

    /// See [`Domain::cmp_requeue`].
    ///
    /// # Errors
    /// As there, and as for [`get`](Self::get).
    #[cfg(feature = "requeue")]
    pub fn cmp_requeue<T: Target, U: Key>(
        &self,
        from: T,
        expected: T::Value,
        to: U,
        most: Requeue,
    ) -> Result<Requeued, Error> {
        self.get()?.cmp_requeue(from, expected, to, most)
    }

    /// See [`Domain::wake_op`].
    ///
    /// # Errors
    /// As there, and as for [`get`](Self::get).
    pub fn wake_op<K: Key, T: Target>(
        &self,
        first: K,
        count: usize,
        second: T,
        op: WakeOp,
        second_count: usize,
    ) -> Result<usize, Error> {
        self.get()?.wake_op(first, count, second, op, second_count)
    }

    /// See [`Domain::task`].
    ///
    /// # Errors
    /// As there, and as for [`get`](Self::get).
    pub fn task(&self, tid: u32) -> Result<Task, Error> {
        self.get()?.task(tid)
    }
}

impl Deref for StaticDomain {
    type Target = Domain;

    /// As [`get`](Self::get).
    ///
    /// # Panics
    /// If the domain has not been made, and cannot be made.
    #[inline]
    fn deref(&self) -> &Domain {
        self.get().expect("there is memory for the domain of a static, and its configuration is valid")
    }
}

impl core::fmt::Debug for StaticDomain {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("StaticDomain").field("domain", &self.domain.get()).finish_non_exhaustive()
    }
}

const _: () = {
    const fn is_shared_by_threads<T: Send + Sync>() {}
    is_shared_by_threads::<StaticDomain>();
};
