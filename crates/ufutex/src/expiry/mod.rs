//! Expiry: the deadlines of many owners, and the driver that expires them.
//!
//! An owner (a process with its timers, or a domain with the sleeps of its tasks) keeps its deadlines in a
//! [`DeadlineQueue`] for each clock, which has a lock of its own. The driver's wheel contains each queue with its earliest
//! deadline. So arming locks only the owner's queue, unless the earliest deadline changes.

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

/// Expires timers and timeouts. Each [`System`](crate::System) has a driver, for the domains of its own PID namespace. A
/// driver can also be made alone, for timers, or for a namespace.
///
/// With the host's clocks the driver has a thread, which the first timer or timeout starts, and which sleeps while nothing
/// is armed. Each further [`PidNamespace`](crate::PidNamespace) has a driver of its own. With an embedder's clocks
/// ([`Clocks`]) the driver does nothing by itself: the embedder calls [`next`](Self::next), waits in its own way, and calls
/// [`turn`](Self::turn). Then all namespaces use the system's driver, unless they are made with another
/// ([`PidNamespace::with_driver`](crate::PidNamespace::with_driver)).
///
/// A `Driver` is a handle; its clones refer to one driver. Handles differ in the group that owners of deadlines join: see
/// [`turn`](Self::turn). A driver does not survive fork(2): see
/// [`System::abandon_after_fork`](crate::System::abandon_after_fork).
#[derive(Clone)]
pub struct Driver {
    pub(crate) inner: Counted<DriverInner>,
    /// The group of the owners that are made with this handle. `None` is the driver's own.
    group: Option<Counted<OwnerGroup>>,
}

pub(crate) struct DriverInner {
    /// How the threads that use the driver sleep.
    pub on: PlatformRef,
    /// One for each clock: made for the first owner of deadlines, because each takes two KiB.
    bases: [Lazy<Lock<Earliest>>; 4],
    source: ClockSource,
    /// The group of owners that were made without naming one.
    group: OwnerGroup,
    /// The number of CPUs; 0 until the host is asked.
    cpus: AtomicU64,
    /// 1 in a child of fork(2) that has abandoned its copy.
    abandoned: AtomicU32,
    /// The system's driver, from whose settings this one was made, and with which it is abandoned.
    model: Option<Driver>,
}

/// The queues of one clock, by their earliest deadlines.
struct Earliest {
    /// The queues whose deadlines have not passed, as far as turns know.
    wheel: Wheel,
    /// The ready line, with the groups that have ready owners: see `line`.
    line: NodeRing,
    /// The number of owners that are ready.
    ready: usize,
    /// The number of the lap. A ready owner has the lower half in its node's `tag`.
    lap: u64,
    /// The number of ready owners that were so when the lap began.
    old: usize,
    /// The time of the next turn, as it was last announced to the thread or embedder that turns the driver.
    announced: u64,
    /// The number of calls of [`Driver::next`] for this clock.
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

    /// The time of the next turn; `None` if no queue is scheduled. 0 means at once.
    fn peek(&self) -> Option<u64> {
        if self.ready != 0 { Some(0) } else { self.wheel.peek() }
    }
}

/// A time later than any clock can show.
const NEVER: u64 = u64::MAX;

/// The source of time.
enum ClockSource {
    Host(host::HostDriver),
    Given(Callbacks<dyn Clocks>),
}

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
        Self::of(PlatformRef::HOST, None, thread)
    }
}

impl Driver {
    /// Makes a driver that runs by an embedder's clocks, and only while the embedder calls [`turn`](Self::turn).
    ///
    /// Its threads sleep by the host. A system's own driver ([`System::driver`](crate::System::driver)) has the
    /// system's platform: without `std` use that one.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn with_clocks(clocks: impl Into<Callbacks<dyn Clocks>>) -> Result<Self, Error> {
        Self::make(PlatformRef::HOST, ClockSource::Given(clocks.into()), None)
    }

    /// Makes a driver with the given clocks or else the host's. Without either, its time stands still.
    pub(crate) fn of(
        on: PlatformRef,
        clocks: Option<Callbacks<dyn Clocks>>,
        thread: DriverThread,
    ) -> Result<Self, Error> {
        let source = match clocks {
            Some(clocks) => ClockSource::Given(clocks),
            None => ClockSource::Host(host::HostDriver::new(thread)),
        };
        Self::make(on, source, None)
    }

    /// A driver for another PID namespace of this driver's system: with the host's clocks a new one, with an embedder's this
    /// one, because the embedder turns this one.
    pub(crate) fn for_another_namespace(&self) -> Result<Self, Error> {
        match &self.inner.source {
            ClockSource::Host(host) => {
                let source = ClockSource::Host(host::HostDriver::new(host.thread.clone()));
                Self::make(self.inner.on, source, Some(self.clone()))
            }
            ClockSource::Given(_) => Ok(self.clone()),
        }
    }

    fn make(on: PlatformRef, source: ClockSource, model: Option<Self>) -> Result<Self, Error> {
        let cpus = match &source {
            ClockSource::Host(_) => 0,
            ClockSource::Given(clocks) => clocks.cpus().max(1) as u64,
        };
        let inner = Counted::new(|_| DriverInner {
            on,
            cpus: AtomicU64::new(cpus),
            bases: [(); 4].map(|()| Lazy::new()),
            source,
            group: OwnerGroup::new(),
            abandoned: AtomicU32::new(0),
            model,
        })?;
        Ok(Self { inner, group: None })
    }

    /// A handle of this driver whose owners of deadlines are a group of their own.
    pub(crate) fn with_new_group(&self) -> Result<Self, Error> {
        Ok(Self { inner: self.inner.clone(), group: Some(Counted::new(|_| OwnerGroup::new())?) })
    }

    /// In the child of fork(2): gives up this process's copy of the driver, with all timers that run by it. They can only be
    /// dropped then. A system's own driver is abandoned with the [system](crate::System::abandon_after_fork).
    ///
    /// # Safety
    /// As for `System::abandon_after_fork`.
    pub unsafe fn abandon_after_fork(&self) {
        self.inner.abandoned.store(1, Ordering::Relaxed);
        // Never dropped, as with a system.
        core::mem::forget(self.clone());
    }

    /// Whether what belongs to the driver may only be dropped, and no lock be taken for that.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.inner.abandoned.load(Ordering::Relaxed) != 0 || self.inner.model.as_ref().is_some_and(Self::is_abandoned)
    }

    /// Gets ready for the deadlines that an owner has on `base`. To be called before the first of them.
    pub(crate) fn prepare(&self, base: Base) -> Result<(), Error> {
        let earliest = || Ok(Lock::new(self.inner.on, Earliest::new()));
        self.inner.bases[base as usize].get_or_make(earliest).map(|_| ())
    }

    /// The time by `base` at which the next turn is needed: never later than the earliest deadline, and earlier if deadlines
    /// have been disarmed since or many are close together. It has passed already if a turn is going on or has left
    /// deadlines that are due. `None` if nothing is armed.
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
                        // From now on the embedder must be notified of a deadline before this time, not before an older one.
                        earliest.announced = earliest.announced.max(at.unwrap_or(NEVER));
                    }
                    at
                })
            });
            if let Some(at) = at {
                // To many of the timers that an embedder passes the time on to, 0 means "never".
                return at.map(|at| Duration::from_nanos(at.max(1)));
            }
        }
    }

    /// Expires all deadlines that are due, on the calling thread, which delivers the timers and wakes the tasks.
    /// Returns the number of deadlines that have passed. Several threads may turn at once. The turn ends when all deadlines
    /// have passed that were due at its beginning. If later ones are left, [`next`](Self::next) returns a time that has passed.
    ///
    /// Owners of deadlines, which are processes with timers and domains with timeouts, are grouped by
    /// [`PidNamespace`](crate::PidNamespace): a domain by its own, timers by the one whose
    /// [`driver`](crate::PidNamespace::driver) they were made with. Groups are served in rotation, and so are the owners of
    /// a group: at most 64 deadlines of one owner expire before the clocks are read and the next is served. So a deadline
    /// that comes during the turn waits for at most 64 deadlines of each other group on each clock, however many owners and
    /// deadlines those have. Of its own group it waits for 64 of each other owner, and for the other groups in between.
    ///
    /// With an embedder's clocks, a thread that has turned must call `next` afterwards, and turn by that time or have another
    /// thread do so: later deadlines are not announced to the threads that asked before.
    ///
    /// If a waker or a delivery panics, the other clocks are still served, and then the panic goes on to the caller. What
    /// else is due by the panic's clock is left to the next turn.
    pub fn turn(&self) -> usize {
        Turn::begin(&self.inner).serve()
    }

    /// Notes that the embedder's `CLOCK_REALTIME`, and `CLOCK_TAI` with it, have been set. The host's clocks need no such call.
    pub fn clock_was_set(&self) {
        // A turn reads the clocks again, and expires what is due by them.
        self.inner.changed();
    }

    /// Whether the clocks are an embedder's.
    pub(crate) fn has_given_clocks(&self) -> bool {
        matches!(self.inner.source, ClockSource::Given(_))
    }

    /// Starts the driver's thread, if the driver runs by the host's clocks and its thread does not run yet. The first
    /// timer or timeout would start it otherwise.
    ///
    /// A new thread inherits scheduling policy and nice value of the thread that starts it, and then applies its
    /// [`DriverThread`] to itself. To raise its priority above what it has inherited, it needs `CAP_SYS_NICE` or a
    /// sufficient `RLIMIT_NICE`. If a program has neither, and a `SCHED_IDLE` or niced thread may arm the first timer, call
    /// this before, from a thread with normal priority. A thread with `SCHED_DEADLINE` cannot start another thread.
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
    /// to a second: the thread of a driver that was dropped closes its own a moment later. On hosts other than Linux the
    /// standard library makes the thread, which ends the program if there is no memory.
    pub fn start(&self) -> Result<(), Error> {
        match &self.inner.source {
            ClockSource::Host(host) => host.start(self),
            ClockSource::Given(_) => Ok(()),
        }
    }
}

impl DriverInner {
    /// The queues of one clock. `None` if no owner has had deadlines on it.
    fn earliest(&self, base: Base) -> Option<&Lock<Earliest>> {
        self.bases[base as usize].get()
    }

    /// The time on `base`, in nanoseconds.
    pub fn now(&self, base: Base) -> u64 {
        match &self.source {
            ClockSource::Host(_) => host::now(base),
            ClockSource::Given(clocks) => nanoseconds(clocks.now(base)),
        }
    }

    /// The number of CPUs that the threads of a process may use at once.
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
        match &self.source {
            ClockSource::Host(_) => host::cpu_time(of),
            ClockSource::Given(clocks) => clocks.cpu_time(of).map(nanoseconds),
        }
    }

    /// Notifies the embedder, or wakes the host's thread, to look for the next deadline. Called with nothing locked.
    fn changed(&self) {
        match &self.source {
            ClockSource::Host(host) => host.program(Base::Monotonic, 0),
            ClockSource::Given(clocks) => call(|| clocks.changed()),
        }
    }

    /// Announces that the next turn of `base` is due at `at`: sets the alarm of the host's thread, or returns whether the
    /// embedder has to be notified, which the caller does later, with nothing locked.
    fn announce(&self, base: Base, earliest: &mut Earliest, at: u64) -> bool {
        if earliest.announced == at {
            return false;
        }
        let is_earlier = at < earliest.announced;
        earliest.announced = at;
        if let ClockSource::Host(host) = &self.source {
            host.program(base, at);
            return false;
        }
        is_earlier
    }

    /// Puts `link` into the wheel, due at `at`, or takes it out if `at` is `NEVER`. Otherwise a link in the ready line, or in
    /// the wheel with an earlier deadline, stays there: a turn will find it and schedule it anew. `now` is a recent reading
    /// of the clock. Returns whether the embedder has to be notified.
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
            // Only a queue that is taken out leaves none.
            (at < earliest.announced || earliest.is_empty()) && self.announce(base, earliest, at)
        })
    }
}
