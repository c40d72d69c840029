//! Regions: which graph the tasks and locks of a domain are in, and which domains share its lock.
//!
//! A *region* is a graph and its lock. A domain's *home* names the region that the domain's part is in. A domain has a
//! region for itself as long as none of its tasks waits for a lock of another domain's task, and no other domain's task
//! waits for a lock of its own tasks. So domains without such waits never wait for each other's region. Before a task
//! waits for another domain's task, all parts of that domain's region move to the waiter's region ([`Guard::include`]).
//! When a part has no ties to other parts any more, it moves to a region of its own ([`Guard`]'s drop). Each PID namespace
//! has homes and regions of its own, so domains of two namespaces never share a region.
//!
//! A home changes its region only with the locks of both regions held. So an operation locks the region that the home
//! names, and then checks that the home still names it. If so, the home names it until the operation unlocks.
//!
//! No operation waits for a region with another region or a bucket locked. It tries the region instead. If the region
//! is busy, the operation releases its locks and waits for the region ([`turns`](super::turns)).

use core::mem::ManuallyDrop;
use core::num::NonZeroU32;
use core::ptr::NonNull;

use super::EntryRef;
use super::graph::{Changes, Graph, Part};
use super::homes::Homes;
use crate::error::Error;
use crate::lock::{Lock, LockGuard};
use crate::sync::{AtomicPtr, AtomicU64, Mutant, Ordering, mutant};
use crate::sys::counted::Counted;
use crate::sys::platform::PlatformRef;

pub(crate) type PiGraph = Graph<EntryRef, HomeRef>;

/// Names the region of a domain's tasks and locks. A home that is free, or whose domain is gone, names no region.
pub(crate) struct Home {
    number: NonZeroU32,
    /// Those of its PID namespace.
    regions: NonNull<Regions>,
    region: AtomicPtr<Region>,
}

// SAFETY: `regions` is only read, and `Regions` are `Sync`.
unsafe impl Send for Home {}
// SAFETY: as above.
unsafe impl Sync for Home {}

/// A graph and its lock. Aligned so that two regions do not share a cache line.
#[repr(align(64))]
pub(crate) struct Region {
    graph: Lock<PiGraph>,
}

/// A home of one namespace. Its user has a handle of the namespace, or the lock of a bucket where a waiter of the namespace
/// is queued: such a waiter keeps its namespace, also when its future was forgotten ([`Task`](super::super::task::Task)'s
/// drop). The home may have become another domain's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct HomeRef(NonNull<Home>);

// SAFETY: homes are `Sync`.
unsafe impl Send for HomeRef {}
// SAFETY: as above.
unsafe impl Sync for HomeRef {}

impl Home {
    pub fn new(number: NonZeroU32, regions: NonNull<Regions>) -> Self {
        Self { number, regions, region: AtomicPtr::new(core::ptr::null_mut()) }
    }

    fn region(&self) -> Option<NonNull<Region>> {
        NonNull::new(self.region.load(Ordering::Acquire)) // [X]
    }

    /// Call only with two regions locked: the one that the home names, and the one that it will name.
    fn set_region(&self, region: Option<NonNull<Region>>) {
        let region = region.map_or(core::ptr::null_mut(), NonNull::as_ptr);
        self.region.store(region, Ordering::Release); // [X]
    }
}

impl Region {
    pub fn new(on: PlatformRef, graph: PiGraph) -> Self {
        Self { graph: Lock::new(on, graph) }
    }
}

impl HomeRef {
    pub fn new(home: &Home) -> Self {
        Self(NonNull::from(home))
    }

    /// The number of the domain's part in any graph.
    pub fn number(self) -> NonZeroU32 {
        self.get().number
    }

    /// The homes and regions that it is one of.
    pub fn regions<'a>(self) -> &'a Regions {
        // SAFETY: `Regions` live as long as their homes.
        unsafe { self.get().regions.as_ref() }
    }

    fn get<'a>(self) -> &'a Home {
        // SAFETY: homes live as long as their namespace. The user of a `HomeRef` has a handle of the namespace, or has locked
        // a bucket where one of its waiters is queued.
        unsafe { self.0.as_ref() }
    }
}

/// The homes and regions of a PID namespace.
pub(crate) struct Regions {
    /// The number of the namespace.
    pub namespace: u64,
    homes: Homes,
    max_depth: usize,
    changes: Changes,
    /// How many waits were refused because a chain of owners would have been too long, in all namespaces of the system.
    chains_refused: Counted<AtomicU64>,
}

impl Regions {
    pub fn new(
        on: PlatformRef,
        namespace: u64,
        max_depth: usize,
        changes: Changes,
        chains_refused: Counted<AtomicU64>,
    ) -> Self {
        Self { namespace, homes: Homes::new(on), max_depth, changes, chains_refused }
    }

    /// A home with a region of its own, for a domain of the namespace.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn open(&self) -> Result<HomeRef, Error> {
        let (home, region) = self.homes.take_both(self.into(), || Graph::new(self.max_depth, self.changes))?;
        // SAFETY: regions live as long as their namespace.
        let found = unsafe { region.as_ref() };
        found.graph.lock().with(|graph| {
            graph.put(Part::new(home.number(), home));
            home.get().set_region(Some(region));
        });
        Ok(home)
    }

    /// Notes that the home's domain is gone. The home becomes free when the domain's tasks and locks are gone too.
    pub fn close(&self, home: HomeRef) {
        if let Some(mut guard) = self.lock(home) {
            guard.with(|graph| graph.leave(home.number()));
        }
    }

    /// Locks the region of a home. Returns `None` if the home's domain is gone. It waits, so call it with no bucket and
    /// no other region locked.
    pub fn lock(&self, home: HomeRef) -> Option<Guard<'_>> {
        loop {
            let region = home.get().region()?;
            // SAFETY: regions live as long as their namespace.
            let found = unsafe { region.as_ref() };
            let lock = found.graph.lock();
            if home.get().region() == Some(region) || mutant(Mutant::RegionSkipsSecondLook) {
                return Some(Guard { regions: self, region, lock: ManuallyDrop::new(lock) });
            }
        }
    }

    /// Tries to lock the region of a home, without waiting.
    #[inline]
    pub fn try_lock(&self, home: HomeRef) -> Tried<'_> {
        let Some(region) = home.get().region() else { return Tried::Gone };
        // SAFETY: regions live as long as their namespace.
        let found = unsafe { region.as_ref() };
        match found.graph.try_lock() {
            Some(lock) if home.get().region() == Some(region) => {
                Tried::Locked(Guard { regions: self, region, lock: ManuallyDrop::new(lock) })
            }
            // The home has just moved to another region.
            _ => Tried::Busy,
        }
    }
}

/// The result of [`Regions::try_lock`].
pub(crate) enum Tried<'s> {
    Locked(Guard<'s>),
    /// Another thread holds it.
    Busy,
    /// The home belongs to no domain any more.
    Gone,
}

/// A locked region.
pub(crate) struct Guard<'s> {
    regions: &'s Regions,
    region: NonNull<Region>,
    /// Dropped by the guard's own drop, and nowhere else.
    lock: ManuallyDrop<LockGuard<'s, PiGraph>>,
}

impl Guard<'_> {
    pub fn with<R>(&mut self, f: impl FnOnce(&mut PiGraph) -> R) -> R {
        self.lock.with(f)
    }

    /// Whether the home names this region.
    pub fn is_of(&self, home: HomeRef) -> bool {
        home.get().region() == Some(self.region)
    }

    /// Moves everything in the home's region to this one. Returns `false` if that region is busy, or if the home has just
    /// changed its region. In that case unlock this region before waiting for the other.
    ///
    /// # Errors
    /// [`Error::NoMemory`]. Nothing has changed then.
    pub fn include(&mut self, home: HomeRef) -> Result<bool, Error> {
        let Some(other) = home.get().region().filter(|other| *other != self.region) else { return Ok(true) };
        // SAFETY: regions live as long as their namespace.
        let found = unsafe { other.as_ref() };
        let Some(mut lock) = found.graph.try_lock() else { return Ok(false) };
        if home.get().region() != Some(other) {
            return Ok(false);
        }
        let region = Some(self.region);
        lock.with(|from| self.lock.with(|graph| graph.absorb(from, |home: HomeRef| home.get().set_region(region))))?;
        self.regions.homes.give_back_region(other);
        Ok(true)
    }

    /// Removes the parts of domains that are gone, and gives parts without ties regions of their own. Returns the
    /// removed part, or the last of several. The caller frees its memory after unlocking the region.
    #[cold]
    fn settle(&mut self) -> Option<Part<EntryRef, HomeRef>> {
        let mut finished = None;
        let homes = &self.regions.homes;
        while let Some(part) = self.lock.with(Graph::take_finished) {
            part.home().get().set_region(None);
            homes.give_back_home(part.home());
            finished = Some(part);
        }
        while self.lock.with(|graph| graph.has_loose()) {
            let Some(region) = homes.take_region() else { break };
            // SAFETY: regions live as long as their namespace.
            let found = unsafe { region.as_ref() };
            // A thread may hold this free region's lock: it read the region from a home, and has not yet checked again.
            // The part can move later.
            let Some(mut lock) = found.graph.try_lock() else {
                homes.give_back_region(region);
                break;
            };
            if let Some(part) = self.lock.with(Graph::take_loose) {
                let home = part.home().get();
                lock.with(|graph| graph.put(part));
                home.set_region(Some(region));
            }
        }
        if self.lock.with(|graph| graph.parts()) == 0 {
            homes.give_back_region(self.region);
        }
        finished
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        let (refused, may_shrink) =
            self.lock.with(|graph| (core::mem::take(&mut graph.chains_refused), graph.may_shrink()));
        if refused != 0 {
            self.regions.chains_refused.fetch_add(refused, Ordering::Relaxed);
        }
        let finished = if may_shrink { self.settle() } else { None };
        // SAFETY: the guard is being dropped; the field is not used again.
        unsafe { ManuallyDrop::drop(&mut self.lock) };
        drop(finished);
    }
}
