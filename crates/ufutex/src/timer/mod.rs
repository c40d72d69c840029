//! POSIX timers: timer_create(2) and its family, for a user-mode kernel or a runtime.
//!
//! [`Timers`] holds the timers of one process. A [`Driver`] expires the timers of all processes; every
//! [`System`](crate::System) has one. A [`Deliver`] decides what an expired timer does: a guest kernel queues a signal, a
//! runtime calls a function ([`Callback`]) or takes expired timers out of a channel ([`Timers::channel`]).
//!
//! ```
//! use std::time::Duration;
//! use ufutex::timer::{Expiry, Notify, TimerClock, Timers};
//!
//! let system = ufutex::System::new();
//! let (timers, expiries) = Timers::channel(system.driver(), Default::default())?;
//! let id = timers.create(TimerClock::Monotonic, Some(Notify::Signal { signal: 14, value: 7 }))?;
//! let ms = Duration::from_millis(1);
//! timers.settime(id, Expiry::After(ms), ms)?; // every millisecond
//!
//! let expired = expiries.recv();
//! assert_eq!(expired.id, id);
//! assert_eq!(timers.getoverrun(id)?, expired.overrun);
//! timers.delete(id)?;
//! # Ok::<(), ufutex::Error>(())
//! ```

mod call;
mod channel;
mod create;
mod deliver;
mod entry;
mod expire;
#[cfg(all(feature = "std", target_os = "linux"))]
mod host;
mod ids;
mod lookup;
mod options;
mod set;
mod store;

use core::time::Duration;

pub use crate::expiry::thread::{CpuSet, Cpus, DriverThread};
pub use crate::expiry::{Base, Clocks, CpuClock, Driver};
pub use call::{Caller, CompatTimerCall, TimerCall};
pub use channel::Expiries;
pub use deliver::{Callback, Deliver};
pub use expire::{Expired, Notice};
#[cfg(all(feature = "std", target_os = "linux"))]
pub use host::{EventFd, Signals};
pub use options::TimerOptions;

use crate::error::Error;
use crate::expiry::DeadlineQueue;
use crate::sync::{AtomicU32, AtomicUsize, Ordering};
use crate::sys::callbacks::Callbacks;
use crate::sys::counted::Counted;
use store::Store;

/// The clock that a timer runs by.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum TimerClock {
    /// `CLOCK_REALTIME`. Setting the clock affects only timers that were set to a point in time.
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

/// What a timer does when it expires: a `struct sigevent`. To the kernel `SIGEV_THREAD` is a [`Signal`](Self::Signal) too.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Notify {
    /// Nothing. The process asks how much time is left.
    None,
    /// A signal to the process.
    Signal {
        /// The signal's number, from 1 to 64.
        signal: i32,
        /// The value that the signal carries.
        value: u64,
    },
    /// A signal to one thread.
    Thread {
        /// The signal's number, from 1 to 64.
        signal: i32,
        /// The value that the signal carries.
        value: u64,
        /// The thread's number.
        thread: i32,
    },
}

impl Notify {
    /// The signal or 0, its value, and the thread that gets it, if not the process.
    fn parts(self) -> (i32, u64, Option<i32>) {
        match self {
            Self::None => (0, 0, None),
            Self::Signal { signal, value } => (signal, value, None),
            Self::Thread { signal, value, thread } => (signal, value, Some(thread)),
        }
    }
}

/// When a timer first expires. A time of 0 means never, as in a `struct itimerspec`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Expiry {
    /// It is disarmed.
    Never,
    /// After this time, from now on.
    After(Duration),
    /// At this time of the timer's clock: `TIMER_ABSTIME`.
    At(Duration),
}

/// When and how often a timer expires: a `struct itimerspec`. To the nanosecond, up to the kernel's limit of some 292 years.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Setting {
    /// The time until the next expiry. 0 means never.
    pub value: Duration,
    /// The time from each expiry to the next. 0 means that the timer expires once.
    pub interval: Duration,
}

/// The timers of one process. A new process inherits none from its parent. For exec(2), call [`clear`](Self::clear). This is a
/// handle: its clones refer to the same timers, which are freed with the last.
#[derive(Clone)]
pub struct Timers {
    inner: Counted<TimersInner>,
}

struct TimersInner {
    store: Store,
    restores: AtomicU32,
    serves_cpu_clocks: bool,
    cpu_timers: AtomicUsize,
    queues: [DeadlineQueue; 4],
    deliver: Callbacks<dyn Deliver>,
    driver: Driver,
}

impl Timers {
    /// Makes an empty table of timers, for a process whose expired timers go to `deliver`. For a guest's process `driver` is
    /// [`PidNamespace::driver`](crate::PidNamespace::driver): see [`Driver::turn`].
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn new(driver: &Driver, deliver: impl Into<Callbacks<dyn Deliver>>) -> Result<Self, Error> {
        Self::with_options(driver, deliver, TimerOptions::new())
    }

    /// As [`new`](Self::new), with settings.
    ///
    /// # Errors
    /// [`Error::NoMemory`]; [`Error::Invalid`] if the highest ID is not one less than a power of two.
    pub fn with_options(
        driver: &Driver,
        deliver: impl Into<Callbacks<dyn Deliver>>,
        options: TimerOptions,
    ) -> Result<Self, Error> {
        let max_id = u32::try_from(options.max_id).map_err(|_| Error::Invalid)?;
        if !(max_id + 1).is_power_of_two() {
            return Err(Error::Invalid);
        }
        Base::ALL.iter().try_for_each(|&base| driver.prepare(base))?;
        let (deliver, on) = (deliver.into(), driver.inner.on);
        let store = Store::new(on, options.max_timers, max_id)?;
        let inner = Counted::new(|_| TimersInner {
            store,
            restores: AtomicU32::new(0),
            serves_cpu_clocks: options.host_pids || driver.has_given_clocks(),
            cpu_timers: AtomicUsize::new(0),
            queues: Base::ALL.map(|base| DeadlineQueue::new(on, base)),
            deliver,
            driver: driver.clone(),
        })?;
        for queue in &inner.queues {
            // SAFETY: no other thread has the timers yet. Their drop retires the queues, which are a part of them.
            unsafe { queue.settle(inner.memory(), &inner.driver) };
        }
        Ok(Self { inner })
    }

    /// The driver that expires these timers.
    #[must_use]
    pub fn driver(&self) -> &Driver {
        &self.inner.driver
    }

    /// The number of timers. Only roughly, while other threads make and delete some.
    #[must_use]
    pub fn count(&self) -> usize {
        self.inner.store.in_use()
    }

    /// The memory of the table of IDs, in bytes, without the timers themselves.
    #[must_use]
    pub fn table_bytes(&self) -> usize {
        self.inner.store.ids.bytes()
    }

    /// All memory of this process's timers, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of::<TimersInner>() + self.inner.store.bytes()
    }

    /// Whether callers name the IDs: `PR_TIMER_CREATE_RESTORE_IDS`. Only system calls read it.
    #[must_use]
    pub fn restores_ids(&self) -> bool {
        self.inner.restores.load(Ordering::Relaxed) != 0
    }

    /// Sets [`restores_ids`](Self::restores_ids).
    pub fn restore_ids(&self, restores: bool) {
        self.inner.restores.store(restores.into(), Ordering::Relaxed);
    }

    /// Deletes all timers, and goes back to IDs that the table hands out: exec(2).
    pub fn clear(&self) {
        self.restore_ids(false);
        self.inner.store.for_each(|timer| {
            if timer.is_valid() {
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
