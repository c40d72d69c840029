//! A domain in a static, made by its first wait.

use super::config::{DomainOptions, SystemConfig};
use super::domain::Domain;
use super::key::Key;
use super::system::System;
use crate::error::Error;
use crate::sync::wake_barrier;
use crate::sys::lazy::Lazy;

/// A [`Domain`] with a [`System`] of its own that can be the value of a static. The first wait makes both.
///
/// ```
/// use std::sync::atomic::{AtomicU32, Ordering::{Acquire, Release}};
/// use ufutex::{Error, StaticDomain};
///
/// static FUTEXES: StaticDomain = StaticDomain::new();
/// static WORD: AtomicU32 = AtomicU32::new(0);
///
/// let waiter = std::thread::spawn(|| {
///     let futexes = FUTEXES.get()?;
///     while WORD.load(Acquire) == 0 {
///         let _ = futexes.wait(&WORD, 0);
///     }
///     Ok::<(), Error>(())
/// });
/// WORD.store(1, Release);
/// FUTEXES.wake_one(&WORD);
/// assert_eq!(waiter.join().unwrap(), Ok(()));
/// ```
///
/// A wake never makes the domain: as long as there is none, there are no waiters. It needs no `std`. No thread waits for
/// another to make the domain: each thread that finds none makes one, and all use the first that is stored.
pub struct StaticDomain {
    domain: Lazy<Domain>,
    config: SystemConfig,
    options: DomainOptions,
}

impl StaticDomain {
    /// With the default settings.
    #[expect(clippy::new_without_default, reason = "a constant default needs a name")]
    #[must_use]
    pub const fn new() -> Self {
        Self::with(SystemConfig::new(), DomainOptions::new())
    }

    /// With a system of this configuration, and a domain with these options.
    ///
    /// ```
    /// use ufutex::{SystemConfig, DomainOptions, StaticDomain};
    /// static FUTEXES: StaticDomain = StaticDomain::with(SystemConfig::new().cpus(4), DomainOptions::new().counters(true));
    /// ```
    #[must_use]
    pub const fn with(config: SystemConfig, options: DomainOptions) -> Self {
        Self { domain: Lazy::new(), config, options }
    }

    /// The domain. The first call makes it.
    ///
    /// # Errors
    /// [`Error::NoMemory`]; the next call tries again. [`Error::Invalid`] as for [`System::with_config`].
    #[inline]
    pub fn get(&self) -> Result<&Domain, Error> {
        self.domain.get_or_make(|| {
            let system = System::with_config(self.config.clone())?;
            Ok(Domain::with_options(&system, self.options))
        })
    }

    /// `None` means that no waiter is queued: the wait of a thread that makes the domain later finds the word changed.
    #[inline(always)]
    fn found_by_wake(&self) -> Option<&Domain> {
        self.domain.get().or_else(|| {
            wake_barrier(); // [B] pairs with the [A] of the first wait
            self.domain.get()
        })
    }

    /// Gives up this process's copy in the child of fork(2): see [`System::abandon_after_fork`]. The next wait makes another.
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

    /// See [`Domain::wake`].
    #[inline]
    pub fn wake<K: Key>(&self, key: K, count: usize) -> usize {
        self.found_by_wake().map_or(0, |domain| domain.wake(key, count))
    }

    /// See [`Domain::wake_one`].
    #[inline]
    pub fn wake_one<K: Key>(&self, key: K) -> bool {
        self.wake(key, 1) != 0
    }

    /// See [`Domain::wake_all`].
    #[inline]
    pub fn wake_all<K: Key>(&self, key: K) -> usize {
        self.wake(key, usize::MAX)
    }
}

impl core::fmt::Debug for StaticDomain {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("StaticDomain").field("domain", &self.domain.get()).finish_non_exhaustive()
    }
}
