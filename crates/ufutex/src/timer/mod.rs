//! POSIX timers: timer_create(2) and its family, for a user-mode kernel or a runtime.
//!
//! [`Timers`] is what a process has: a table of timers by their IDs, which grows as it needs and has no lock that look-ups
//! take. A [`Driver`] expires the timers of all processes; every [`System`](crate::System) has one. What an expired timer
//! does is up to a [`Deliver`]: a guest kernel queues a signal, a runtime calls a function ([`Callback`]) or takes
//! them out of a channel ([`Timers::channel`]).
//!
//! ```
//! use std::time::Duration;
//! use ufutex::timer::{Notify, Setting, TimerClock, Timers};
//!
//! let system = ufutex::System::new();
//! let (timers, expiries) = Timers::channel(system.driver(), Default::default())?;
//! let id = timers.create(TimerClock::Monotonic, Some(Notify::Signal { signal: 14, value: 7 }))?;
//! let every_millisecond = Setting { value: Duration::from_millis(1), interval: Duration::from_millis(1) };
//! timers.settime(id, false, every_millisecond)?;
//!
//! let expired = expiries.recv();
//! assert_eq!(expired.id, id);
//! assert_eq!(timers.getoverrun(id)?, expired.overrun);
//! timers.delete(id)?;
//! # Ok::<(), ufutex::Error>(())
//! ```

mod channel;
mod chunk;
mod create;
mod deliver;
mod entry;
mod expire;
#[cfg(feature = "_host")]
mod host;
mod ids;
mod lookup;
mod numbers;
mod options;
mod set;
mod spread;
mod store;

use alloc::sync::Arc;
use core::ptr::NonNull;
use core::time::Duration;

pub use crate::expiry::thread::{Cpus, DriverThread};
pub use crate::expiry::{Base, Clocks, CpuClock, Driver};
pub use crate::syscall::{TimerCall, TimerCaller as Caller};
pub use channel::Expiries;
pub use deliver::{Callback, Deliver};
pub use expire::{Expired, Notice};
#[cfg(feature = "_host")]
pub use host::{EventFd, Signals};
pub use options::TimerOptions;

use crate::error::Error;
use crate::expiry::{Owner, Queue};
use crate::sync::{AtomicU32, Ordering};
use crate::sys::counted::Counted;
use ids::Ids;
use numbers::Numbers;
use store::Store;

/// The clock that a timer runs by.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TimerClock {
    /// `CLOCK_REALTIME`. When it is set, that moves timers that were set to a point in time, and no others.
    Realtime,
    /// `CLOCK_MONOTONIC`.
    Monotonic,
    /// `CLOCK_BOOTTIME`.
    Boottime,
    /// `CLOCK_TAI`.
    Tai,
    /// CPU time of a process or a thread.
    Cpu(CpuClock),
}

/// What a timer does when it expires: a `struct sigevent`. `SIGEV_THREAD` is a [`Signal`](Self::Signal) to the kernel too.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Notify {
    /// Nothing; it is asked how much time is left.
    None,
    /// A signal to the process.
    Signal {
        /// Its number, from 1 to 64.
        signal: i32,
        /// What it carries.
        value: u64,
    },
    /// A signal to one thread.
    Thread {
        /// Its number, from 1 to 64.
        signal: i32,
        /// What it carries.
        value: u64,
        /// The thread, by its number.
        thread: i32,
    },
}

/// When a timer expires, and how often: a `struct itimerspec`. Times are exact to the nanosecond, and end after some 292
/// years, as the kernel's do.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Setting {
    /// So much time from now, or that point in time; 0: never.
    pub value: Duration,
    /// From one expiry to the next; 0: there is no next.
    pub interval: Duration,
}

/// The timers of one process. A new process has none of its parent's; exec(2) is [`clear`](Self::clear).
///
/// A handle: clones mean the same timers, which are gone with the last one.
#[derive(Clone)]
pub struct Timers {
    inner: Counted<Inner>,
}

struct Inner {
    ids: Ids,
    numbers: Numbers,
    store: Store,
    /// Whether callers name the IDs: not 0.
    restores: AtomicU32,
    queues: [Queue; 4],
    deliver: Arc<dyn Deliver>,
    driver: Driver,
}

impl Timers {
    /// No timers yet, of a process whose expired timers go to `deliver`.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn new(driver: &Driver, deliver: Arc<dyn Deliver>) -> Result<Self, Error> {
        Self::with_options(driver, deliver, TimerOptions::new())
    }

    /// As [`new`](Self::new), with limits.
    ///
    /// # Errors
    /// [`Error::NoMemory`]; [`Error::Invalid`] for a greatest ID that is not one less than a power of two.
    pub fn with_options(driver: &Driver, deliver: Arc<dyn Deliver>, options: TimerOptions) -> Result<Self, Error> {
        let mask = options.id_mask()?;
        let inner = Counted::new(|_| Inner {
            ids: Ids::new(driver.seed()),
            numbers: Numbers::new(mask),
            store: Store::new(options.limit()),
            restores: AtomicU32::new(0),
            queues: Base::ALL.map(Queue::new),
            deliver,
            driver: driver.clone(),
        })?;
        for queue in &inner.queues {
            // SAFETY: nobody else has the timers yet; the queues are a part of them, and retired when they are dropped.
            unsafe { queue.settle(NonNull::<Inner>::from(&*inner) as NonNull<dyn Owner>) };
        }
        Ok(Self { inner })
    }

    /// The driver that expires them.
    #[must_use]
    pub fn driver(&self) -> &Driver {
        &self.inner.driver
    }

    /// How many timers there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.inner.store.in_use().saturating_sub(self.inner.ids.kept())
    }

    /// What finding timers by their IDs takes, in bytes, without the timers.
    #[must_use]
    pub fn table_bytes(&self) -> usize {
        self.inner.ids.bytes()
    }

    /// All memory of this process's timers, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of::<Inner>() + self.inner.ids.bytes() + self.inner.store.bytes()
    }

    /// Whether IDs are the caller's to name: `PR_TIMER_CREATE_RESTORE_IDS`. System calls alone look at it.
    #[must_use]
    pub fn restores_ids(&self) -> bool {
        self.inner.restores.load(Ordering::Relaxed) != 0
    }

    /// Has callers name the IDs, or no longer.
    pub fn restore_ids(&self, restores: bool) {
        self.inner.restores.store(restores.into(), Ordering::Relaxed);
    }

    /// Deletes all timers, and has IDs handed out again: exec(2).
    pub fn clear(&self) {
        self.restore_ids(false);
        self.inner.store.for_each(|timer| {
            if timer.is_valid() {
                // Another thread may be faster.
                let _gone = self.delete(timer.id() as i32);
            }
        });
    }
}

impl core::fmt::Debug for Timers {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Timers").field("count", &self.count()).field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}
