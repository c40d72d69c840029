//! Expiry: deadlines of many owners, and the one driver that sees to them.
//!
//! Who has deadlines (the timers of a process, the sleeps of tasks) keeps them in a [`Queue`] for each clock, behind a
//! lock of its own. A queue stands in the driver's wheel with its earliest deadline. So arming locks what belongs to the
//! process alone, unless its earliest deadline changes. Nothing here knows of timers or futexes.

pub mod clocks;
#[cfg(feature = "_host")]
mod host;
mod queue;
pub mod sleep;
pub mod wheel;

pub(crate) use clocks::GivenClocks;
pub use clocks::{Base, Clocks, CpuClock};
pub(crate) use queue::{Held, Owner, Queue, Tell};

use alloc::sync::Arc;
use core::ptr::NonNull;
use core::time::Duration;

use crate::error::Error;
use crate::sync::{AtomicU64, Mutant, Ordering, mutant};
use crate::sys::counted::Counted;
use crate::sys::random;
use crate::table::lock::Lock;
use clocks::nanoseconds;
use queue::Link;
use sleep::Sleeps;
use wheel::{Next, Wheel};

/// Who expires timers and timeouts: one of a [`System`](crate::System), or made by itself for timers alone.
///
/// With the host's clocks it sleeps in a thread of its own, which is started with the first timer, and which nothing wakes
/// up as long as nothing is armed. With an embedder's ([`Clocks`]) it does nothing by itself: the embedder looks at
/// [`next`](Self::next), waits as it likes, and calls [`turn`](Self::turn).
///
/// A handle: clones mean the same driver. It does not survive fork(2): the child has no such thread, and makes a system of
/// its own.
#[derive(Clone)]
pub struct Driver {
    pub(crate) inner: Counted<Inner>,
}

pub(crate) struct Inner {
    bases: [Lock<Earliest>; 4],
    source: Source,
    seed: u64,
    cpus: u64,
    owners: AtomicU64,
    sleeps: Sleeps,
}

/// The queues of one clock, by their earliest deadlines.
struct Earliest {
    wheel: Wheel,
    /// When the next turn is due, as whoever turns has been told.
    told: u64,
    /// How often somebody has asked when that is.
    looks: u64,
}

/// Never: later than any clock can show.
const NEVER: u64 = u64::MAX;

/// Where time comes from.
enum Source {
    #[cfg(feature = "_host")]
    Host(host::Host),
    Given(Arc<dyn Clocks>),
    /// There is no time: no operating system, and no embedder's clocks.
    #[cfg_attr(feature = "_host", expect(dead_code))]
    None,
}

impl Driver {
    /// A driver that runs by the host's clocks. Its thread is started with the first timer.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    #[cfg(feature = "_host")]
    pub fn host() -> Result<Self, Error> {
        Self::make(Source::Host(host::Host::new()))
    }

    /// A driver that runs by an embedder's clocks, and in its turns.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn with_clocks(clocks: Arc<dyn Clocks>) -> Result<Self, Error> {
        Self::make(Source::Given(clocks))
    }

    /// The host's, an embedder's, or one for which time stands still.
    pub(crate) fn of(clocks: Option<Arc<dyn Clocks>>) -> Result<Self, Error> {
        match clocks {
            Some(clocks) => Self::with_clocks(clocks),
            #[cfg(feature = "_host")]
            None => Self::host(),
            #[cfg(not(feature = "_host"))]
            None => Self::make(Source::None),
        }
    }

    fn make(source: Source) -> Result<Self, Error> {
        let cpus = match &source {
            #[cfg(feature = "_host")]
            Source::Host(_) => host::cpus(),
            Source::Given(clocks) => clocks.cpus().max(1) as u64,
            Source::None => 1,
        };
        let inner = Counted::new(|address| Inner {
            bases: core::array::from_fn(|_| Lock::new(Earliest { wheel: Wheel::new(), told: NEVER, looks: 0 })),
            source,
            seed: random::seed(address),
            cpus,
            owners: AtomicU64::new(0),
            sleeps: Sleeps::new(),
        })?;
        // SAFETY: the sleeps are a part of `inner`, and go with it.
        unsafe { inner.sleeps.settle(&inner) };
        Ok(Self { inner })
    }

    /// When there is something to do, by `base`: never later than the earliest deadline; earlier where what was armed
    /// has been disarmed since, or many deadlines are close together. `None`: nothing is armed.
    #[must_use]
    pub fn next(&self, base: Base) -> Option<Duration> {
        let at = self.inner.bases[base as usize].lock().with(|earliest| {
            earliest.looks = earliest.looks.wrapping_add(1);
            if !earliest.wheel.is_empty() {
                let now = self.inner.now(base);
                if earliest.wheel.is_ahead_of(now) {
                    earliest.wheel.turn_back(now);
                }
            }
            earliest.wheel.peek()
        });
        at.map(Duration::from_nanos)
    }

    /// Expires what is due by now, on the calling thread: timers are delivered and tasks woken from here. Answers how
    /// many there were. Several threads may turn at once.
    pub fn turn(&self) -> usize {
        Base::ALL.iter().map(|base| self.turn_base(*base)).sum()
    }

    fn turn_base(&self, base: Base) -> usize {
        let queue = &self.inner.bases[base as usize];
        let (is_empty, looks) = queue.lock().with(|earliest| {
            // Whoever has been told has come: they are told again when this turn is done.
            earliest.told = NEVER;
            (earliest.wheel.is_empty(), earliest.looks)
        });
        if is_empty {
            return 0;
        }
        // Once: what becomes due during this turn is for the next one.
        let now = self.inner.now(base);
        let (mut owners, mut expired) = (0, 0);
        while let Some(owner) = self.next_owner(base, now) {
            owners += 1;
            expired += owner.expire(base, now);
        }
        // Who asked meanwhile when the next turn is due did not see those that were out of the wheel, and may be asleep.
        if owners != 0 && queue.lock().with(|earliest| earliest.looks != looks) && !mutant(Mutant::TurnIgnoresLooks) {
            self.inner.changed();
        }
        expired
    }

    /// The owner of the queue that has been due for longest.
    fn next_owner(&self, base: Base, now: u64) -> Option<queue::Held> {
        loop {
            let found = self.inner.bases[base as usize].lock().with(|earliest| {
                if earliest.wheel.is_ahead_of(now) {
                    earliest.wheel.turn_back(now);
                }
                earliest.wheel.hold_back(now);
                match earliest.wheel.next(now) {
                    // SAFETY: what stands in this wheel is the node of a link, whose owner takes it out before it goes,
                    // with this lock.
                    Next::Due(node) => Some(unsafe { Link::owner_of(node) }),
                    Next::Working => Some(None),
                    Next::At(_) | Next::Never => {
                        earliest.wheel.release();
                        let at = earliest.wheel.peek().unwrap_or(NEVER);
                        self.inner.tell_at(base, earliest, at);
                        None
                    }
                }
            })?;
            if found.is_some() {
                return found; // else it is going, or there is more work to do first
            }
        }
    }

    /// Says that the embedder's `CLOCK_REALTIME`, and `CLOCK_TAI` with it, have been set. Of the host's clocks nobody need say
    /// so.
    pub fn clock_was_set(&self) {
        // A turn asks the clocks anew; what is due by them is due.
        self.inner.changed();
    }

    /// What `base` shows.
    pub(crate) fn now(&self, base: Base) -> u64 {
        self.inner.now(base)
    }

    pub(crate) fn cpu_time(&self, of: CpuClock) -> Option<u64> {
        self.inner.cpu_time(of)
    }

    /// How many CPUs the threads of a process may use at once.
    pub(crate) fn cpus(&self) -> u64 {
        self.inner.cpus
    }

    /// A number that nobody can guess, another one for each owner.
    pub(crate) fn seed(&self) -> u64 {
        let owner = self.inner.owners.fetch_add(1, Ordering::Relaxed);
        random::mixed(self.inner.seed.wrapping_add(random::mixed(owner)))
    }

    /// Sees to it that somebody turns.
    ///
    /// # Errors
    /// [`Error::NoMemory`] when the host refuses a thread or what it waits with.
    pub(crate) fn start(&self) -> Result<(), Error> {
        match &self.inner.source {
            #[cfg(feature = "_host")]
            Source::Host(host) => host.start(self),
            Source::Given(_) => Ok(()),
            Source::None => Err(Error::Unsupported),
        }
    }

    pub(crate) fn sleeps(&self) -> &Sleeps {
        &self.inner.sleeps
    }
}

impl Inner {
    fn now(&self, base: Base) -> u64 {
        match &self.source {
            #[cfg(feature = "_host")]
            Source::Host(_) => host::now(base),
            Source::Given(clocks) => nanoseconds(clocks.now(base)),
            Source::None => 0,
        }
    }

    fn cpu_time(&self, of: CpuClock) -> Option<u64> {
        match &self.source {
            #[cfg(feature = "_host")]
            Source::Host(_) => host::cpu_time(of),
            Source::Given(clocks) => clocks.cpu_time(of).map(nanoseconds),
            Source::None => None,
        }
    }

    /// The embedder is told to look, with nothing locked.
    fn changed(&self) {
        match &self.source {
            #[cfg(feature = "_host")]
            Source::Host(host) => host.wake(),
            Source::Given(clocks) => clocks.changed(),
            Source::None => {}
        }
    }

    /// The next turn of `base` is due at `at`. The host's thread is told here; an embedder later, with nothing locked:
    /// whether it has to be.
    fn tell_at(&self, base: Base, earliest: &mut Earliest, at: u64) -> bool {
        if earliest.told == at {
            return false;
        }
        let is_earlier = at < earliest.told;
        earliest.told = at;
        #[cfg(feature = "_host")]
        if let Source::Host(host) = &self.source {
            host.program(base, at);
            return false;
        }
        let _by_the_hosts_thread = base;
        is_earlier && !mutant(Mutant::ArmTellsNobody)
    }

    /// Puts `link` where it belongs: due at `at`, or nowhere. A later time than it has is put off until it is due,
    /// unless it is never. What is past already is for the next turn, unless this one is to come back to it.
    ///
    /// # Safety
    /// `link` is one of this driver's, and belongs to the caller's queue, which is locked.
    unsafe fn schedule(&self, base: Base, link: NonNull<Link>, at: u64, comes_back: bool) -> bool {
        self.bases[base as usize].lock().with(|earliest| {
            let node = Link::node(link);
            // SAFETY: nodes of links belong to this lock.
            let (is_linked, deadline) = unsafe { ((*node).is_linked(), (*node).deadline()) };
            if is_linked && at >= deadline && at != NEVER {
                return false;
            }
            // SAFETY: as above; the owner takes the link out before it goes.
            unsafe {
                earliest.wheel.remove(node);
                if at != NEVER {
                    let now = if earliest.wheel.is_empty() { self.now(base) } else { 0 };
                    if comes_back {
                        earliest.wheel.insert_at_once(node, at, now);
                    } else {
                        earliest.wheel.insert(node, at, now);
                    }
                }
            }
            if at < earliest.told {
                self.tell_at(base, earliest, at)
            } else if earliest.wheel.is_empty() {
                self.tell_at(base, earliest, NEVER)
            } else {
                false
            }
        })
    }
}
