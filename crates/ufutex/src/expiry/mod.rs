//! Expiry: the deadlines of many owners, and the driver that expires them.
//!
//! An owner (a process's timers, or the sleeps of a domain's tasks by one clock) has a [`DeadlineQueue`] for each clock that it
//! uses. The driver's wheel contains queues by their earliest deadlines. So arming locks only the owner's queue, unless the
//! earliest deadline changes.

pub mod clocks;
#[cfg_attr(not(feature = "std"), path = "no_host.rs")]
mod host;
mod line;
mod queue;
pub mod sleep;
pub mod thread;
mod turn;
pub mod wheel;

pub use clocks::{Base, Clocks, CpuClock};
pub(crate) use queue::{DeadlineQueue, MustNotify, Owner, Share};

use core::time::Duration;

use crate::error::Error;
use crate::lock::Lock;
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::sys::callbacks::Callbacks;
use crate::sys::counted::Counted;
use crate::sys::lazy::Lazy;
use crate::sys::platform::PlatformRef;
use crate::sys::unwind::call;
use clocks::nanoseconds;
use line::OwnerGroup;
use queue::Link;
use thread::DriverThread;
use turn::Turn;
use wheel::{NodeRing, Wheel};

/// Expires timers and timeouts. Each [`System`](crate::System) has a driver, for the domains of its own PID namespace. A driver
/// can also be made alone, for timers, or for a namespace.
///
/// With the host's clocks the driver has a thread, which the first timer or timeout starts. Each further
/// [`PidNamespace`](crate::PidNamespace) has a driver of its own. With an embedder's clocks ([`Clocks`]) the driver does
/// nothing by itself: the embedder calls [`next`](Self::next), waits, and calls [`turn`](Self::turn). Then all namespaces use
/// the system's driver, except those made by [`PidNamespace::with_driver`](crate::PidNamespace::with_driver).
///
/// A `Driver` is a handle; its clones refer to one driver. Handles differ in the group that owners of deadlines join: see
/// [`turn`](Self::turn). It does not survive fork(2): see [`System::abandon_after_fork`](crate::System::abandon_after_fork).
#[derive(Clone)]
pub struct Driver {
    pub(crate) inner: Counted<DriverInner>,
    /// Of the owners that are made with this handle. `None` is the driver's own.
    group: Option<Counted<OwnerGroup>>,
}

pub(crate) struct DriverInner {
    pub on: PlatformRef,
    /// One for each clock, made for the first owner of deadlines: each takes two KiB.
    bases: [Lazy<Lock<Earliest>>; 4],
    /// The embedder's clocks. `None` means the host's: then a thread of the driver turns it.
    clocks: Option<Callbacks<dyn Clocks>>,
    /// How that thread is scheduled.
    thread: DriverThread,
    #[cfg(feature = "std")]
    host: host::HostDriver,
    group: OwnerGroup,
    /// The number of CPUs; 0 until the host is asked.
    cpus: AtomicU64,
    /// 1 in a child of fork(2) that has abandoned its copy.
    abandoned: AtomicU32,
    /// The system's driver, if this one was made from its settings and is abandoned with it.
    model: Option<Driver>,
}

/// The queues of one clock, by their earliest deadlines.
struct Earliest {
    /// Queues whose deadlines have not passed, as far as turns know.
    wheel: Wheel,
    line: NodeRing,
    ready: usize,
    /// A ready owner has the lower half of it in its node's `tag`.
    lap: u64,
    /// The ready owners that were so when the lap began.
    old: usize,
    /// The time of the next turn, as last announced to the thread or embedder that turns the driver.
    announced: u64,
    next_calls: u64,
}

impl Earliest {
    const fn new() -> Self {
        let (wheel, line) = (Wheel::new(), NodeRing::new());
        Self { wheel, line, ready: 0, lap: 0, old: 0, announced: NEVER, next_calls: 0 }
    }

    fn is_empty(&self) -> bool {
        self.wheel.is_empty() && self.ready == 0
    }

    /// The time of the next turn. 0 means at once.
    fn peek(&self) -> Option<u64> {
        if self.ready != 0 { Some(0) } else { self.wheel.peek() }
    }
}

const NEVER: u64 = u64::MAX;

#[cfg(feature = "std")]
impl Driver {
    /// Makes a driver that runs by the host's clocks. Its thread is started with the first timer or timeout.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn host() -> Result<Self, Error> {
        Self::host_with(DriverThread::new())
    }

    /// As [`host`](Self::host), with a thread that is scheduled according to `thread`.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn host_with(thread: DriverThread) -> Result<Self, Error> {
        Self::make(PlatformRef::HOST, None, thread, None)
    }
}

impl Driver {
    /// Makes a driver that runs by an embedder's clocks, and only while the embedder calls [`turn`](Self::turn).
    ///
    /// Threads that wait for its locks sleep by the host. Without `std` use [`System::driver`](crate::System::driver), whose
    /// threads sleep by the system's platform.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn with_clocks(clocks: impl Into<Callbacks<dyn Clocks>>) -> Result<Self, Error> {
        Self::make(PlatformRef::HOST, Some(clocks.into()), DriverThread::new(), None)
    }

    /// With neither given clocks nor the host's, its time stands still.
    pub(crate) fn make(
        on: PlatformRef,
        clocks: Option<Callbacks<dyn Clocks>>,
        thread: DriverThread,
        model: Option<Self>,
    ) -> Result<Self, Error> {
        let cpus = clocks.as_ref().map_or(0, |clocks| clocks.cpus().max(1) as u64);
        let inner = Counted::new(|_| DriverInner {
            on,
            bases: [(); 4].map(|()| Lazy::new()),
            clocks,
            thread,
            #[cfg(feature = "std")]
            host: host::HostDriver::new(),
            group: OwnerGroup::new(),
            cpus: AtomicU64::new(cpus),
            abandoned: AtomicU32::new(0),
            model,
        })?;
        Ok(Self { inner, group: None })
    }

    /// For another PID namespace of the system: a new driver, or with an embedder's clocks this one, which the embedder turns.
    pub(crate) fn for_another_namespace(&self) -> Result<Self, Error> {
        if self.has_given_clocks() {
            return Ok(self.clone());
        }
        Self::make(self.inner.on, None, self.inner.thread.clone(), Some(self.clone()))
    }

    pub(crate) fn with_new_group(&self) -> Result<Self, Error> {
        Ok(Self { inner: self.inner.clone(), group: Some(Counted::new(|_| OwnerGroup::new())?) })
    }

    /// In the child of fork(2): gives up this process's copy of the driver. The timers that run by it can only be dropped then.
    /// A system's own driver is abandoned with the [system](crate::System::abandon_after_fork).
    ///
    /// # Safety
    /// As for `System::abandon_after_fork`.
    pub unsafe fn abandon_after_fork(&self) {
        self.inner.abandoned.store(1, Ordering::Relaxed);
        // Never dropped, as with a system.
        core::mem::forget(self.clone());
    }

    /// Whether what belongs to the driver may only be dropped, without taking a lock.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.inner.abandoned.load(Ordering::Relaxed) != 0 || self.inner.model.as_ref().is_some_and(Self::is_abandoned)
    }

    /// To be called before the first deadline of an owner on `base`.
    pub(crate) fn prepare(&self, base: Base) -> Result<(), Error> {
        let earliest = || Ok(Lock::new(self.inner.on, Earliest::new()));
        self.inner.bases[base as usize].get_or_make(earliest).map(|_| ())
    }

    /// When the next turn is needed, by `base`; `None` if nothing is armed. Never later than the earliest deadline; earlier if
    /// some were disarmed or many are close together; in the past if a turn is going on or has left deadlines that are due.
    #[must_use]
    pub fn next(&self, base: Base) -> Option<Duration> {
        let inner = &*self.inner;
        let earliest = inner.earliest(base)?;
        loop {
            let at = earliest.lock().with(|earliest| {
                earliest.next_calls = earliest.next_calls.wrapping_add(1);
                if !earliest.is_empty() {
                    earliest.wheel.set_back(inner.now(base));
                }
                earliest.wheel.settle().then(|| {
                    let at = earliest.peek();
                    if self.has_given_clocks() {
                        // From now on the embedder must be notified of deadlines before this time.
                        earliest.announced = earliest.announced.max(at.unwrap_or(NEVER));
                    }
                    at
                })
            });
            if let Some(at) = at {
                // 0 means "never" to many of the timers that an embedder passes the time on to.
                return at.map(|at| Duration::from_nanos(at.max(1)));
            }
        }
    }

    /// Expires all deadlines that are due, on the calling thread, which delivers the timers and wakes the tasks. Returns the
    /// number of deadlines that have passed. Several threads may turn at once. The turn ends when all deadlines have passed
    /// that were due at its beginning. If later ones are left, [`next`](Self::next) returns a time that has passed.
    ///
    /// Owners of deadlines, which are processes with timers and domains with timeouts, are grouped by
    /// [`PidNamespace`](crate::PidNamespace): a domain by its own, timers by the one whose
    /// [`driver`](crate::PidNamespace::driver) they were made with. Groups are served in rotation, and so are the owners of a
    /// group: at most 64 deadlines of one owner expire before the clocks are read and the next is served. So a deadline that
    /// comes during the turn waits for at most 64 deadlines of each other group on each clock. For each other owner of its
    /// group it waits for 64 more, and for the other groups again.
    ///
    /// With an embedder's clocks, a thread that has turned must call `next` afterwards, and turn by that time or have another
    /// thread do so: later deadlines are not announced to threads that asked before.
    ///
    /// If a waker or a delivery panics, the other clocks are still served before the panic goes on to the caller. What else is
    /// due by the panic's clock is left to the next turn.
    pub fn turn(&self) -> usize {
        Turn::begin(&self.inner).serve()
    }

    /// Notes that the embedder's `CLOCK_REALTIME`, and with it `CLOCK_TAI`, has been set. The host's clocks need no such call.
    pub fn clock_was_set(&self) {
        // A turn expires what is due by the new time.
        self.inner.changed();
    }

    pub(crate) fn has_given_clocks(&self) -> bool {
        self.inner.clocks.is_some()
    }

    /// Starts the driver's thread, which the first timer or timeout would start. With an embedder's clocks there is none.
    ///
    /// The thread inherits policy and nice value of its starter, and applies its [`DriverThread`] to itself. To raise its
    /// priority above that, it needs `CAP_SYS_NICE` or a sufficient `RLIMIT_NICE`. Without these, if a `SCHED_IDLE` or niced
    /// thread may arm the first timer, call this before from a normal thread. A `SCHED_DEADLINE` thread cannot start it.
    ///
    /// ```
    /// let system = ufutex::System::new();
    /// system.driver().start()?;
    /// # Ok::<(), ufutex::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoMemory`] if the host refuses memory, a thread, or the file descriptors that the thread waits with;
    /// [`Error::NoSuchOperation`] if the driver has no clocks. If the process may open no more files, the call first waits up
    /// to a second for threads of dropped drivers to close theirs. On hosts other than Linux the standard library ends the
    /// program if there is no memory for the thread.
    pub fn start(&self) -> Result<(), Error> {
        if self.has_given_clocks() { Ok(()) } else { host::start(self) }
    }
}

impl DriverInner {
    /// `None` if no owner has had deadlines on it.
    fn earliest(&self, base: Base) -> Option<&Lock<Earliest>> {
        self.bases[base as usize].get()
    }

    pub fn now(&self, base: Base) -> u64 {
        match &self.clocks {
            None => host::now(base),
            Some(clocks) => nanoseconds(clocks.now(base)),
        }
    }

    pub fn cpus(&self) -> u64 {
        let known = self.cpus.load(Ordering::Relaxed); // a number that never changes
        if known != 0 {
            return known;
        }
        let cpus = host::cpus();
        self.cpus.store(cpus, Ordering::Relaxed);
        cpus
    }

    pub fn cpu_time(&self, of: CpuClock) -> Option<u64> {
        match &self.clocks {
            None => host::cpu_time(of),
            Some(clocks) => clocks.cpu_time(of).map(nanoseconds),
        }
    }

    /// Has the embedder, or the host's thread, look for the next deadline. Called with nothing locked.
    fn changed(&self) {
        match &self.clocks {
            None => host::program(self, Base::Monotonic, 0),
            Some(clocks) => call(|| clocks.changed()),
        }
    }

    /// Announces the next turn of `base` at `at`. Returns whether the embedder has to be notified, with nothing locked.
    fn announce(&self, base: Base, earliest: &mut Earliest, at: u64) -> bool {
        if earliest.announced == at {
            return false;
        }
        let is_earlier = at < earliest.announced;
        earliest.announced = at;
        if self.clocks.is_none() {
            host::program(self, base, at);
            return false;
        }
        is_earlier
    }

    /// Puts `link` into the wheel, due at `at`, or takes it out if `at` is `NEVER`. A link in the ready line, or in the wheel
    /// with an earlier deadline, stays there otherwise. Returns as `announce`.
    ///
    /// # Safety
    /// `link` is in this driver, and belongs to the caller's queue, which is locked.
    unsafe fn schedule(&self, base: Base, link: &Link, at: u64, now: u64) -> bool {
        let Some(earliest) = self.earliest(base) else { return false };
        earliest.lock().with(|earliest| {
            let node = link.node();
            // SAFETY: the nodes of links belong to this lock, and an owner takes its link out before freeing it.
            unsafe {
                let is_ready = (*node).is_ready();
                let stands = is_ready || (*node).is_linked() && at >= (*node).deadline;
                if stands && at != NEVER {
                    return false;
                }
                if is_ready {
                    earliest.leave_line(node);
                } else {
                    earliest.wheel.remove(node);
                }
                if at != NEVER {
                    earliest.wheel.insert(node, at, now);
                }
            }
            // Only taking a queue out leaves none.
            (at < earliest.announced || earliest.is_empty()) && self.announce(base, earliest, at)
        })
    }
}
