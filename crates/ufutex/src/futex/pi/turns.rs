//! Locks a bucket and a region together.
//!
//! Buckets of the global table are locked by other domains, too. So an operation that has a bucket locked only tries
//! the region. If the region is busy, the operation unlocks the bucket and waits for the region with nothing locked.
//! With the region locked it then tries the bucket, and starts over. That is a *turn*.
//!
//! # No operation starves
//!
//! A contender of a bucket or a region is handed the lock after half a millisecond (`lock`), unless holders keep their
//! CPU (`Platform::KEEPS_CPU`), where contenders spin in no order. So each wait ends,
//! and a turn fails only if the lock that is tried is held at that moment. A thread of another domain can hold the
//! bucket, but not the region. If the bucket is busy when it is tried, the operation unlocks the region and waits for
//! the bucket. It then finds the region busy only if a task of that region is using it at that moment. If both are busy
//! for [`TURNS`] turns, the operation waits for the bucket with the region locked. That is no deadlock: here the region
//! comes before the bucket, and no operation waits for a region with a bucket locked. It is not done at once, because
//! other operations on locks in the region would then wait for other domains' operations in the bucket.
//!
//! If an operation needs two regions, it waits for each with the other unlocked, alternately. Such a turn fails only if
//! a task is using the other region at that moment. So a domain whose tasks use its own region all the time cannot keep
//! the operation from that region for ever: the operation waits for the busy region, and then tries the other.
//!
//! The word and its queue are read under the bucket's lock, so they may differ in the next turn, and another region may
//! be needed then. In that case another operation has changed the word or its queue, and so made progress.

use super::lock::Refused;
use super::region::{Guard as Region, HomeRef, Regions, Tried};
use crate::sync::{MODEL, Mutant, mutant};

/// After this many turns an operation waits for the bucket with the region locked.
const TURNS: u32 = if MODEL { 1 } else { 8 };

/// See the top of this file. One operation's attempts to lock one or two buckets and a region.
pub(super) struct Turns<'s> {
    regions: &'s Regions,
    /// The region that the operation has waited for. No callback is called while it is held.
    held: Option<Region<'s>>,
    /// How many turns have begun.
    count: u32,
}

impl<'s> Turns<'s> {
    pub fn new(regions: &'s Regions) -> Self {
        Self { regions, held: None, count: 0 }
    }

    /// Locks the bucket: by `wait` if no region is locked, otherwise by `attempt`, which does not wait.
    #[inline(always)]
    pub fn bucket<B>(&mut self, wait: impl Fn() -> B, attempt: impl FnOnce() -> Option<B>) -> B {
        if self.held.is_none() {
            return wait();
        }
        self.bucket_behind_region(wait, attempt)
    }

    #[cold]
    #[inline(never)]
    fn bucket_behind_region<B>(&mut self, wait: impl Fn() -> B, attempt: impl FnOnce() -> Option<B>) -> B {
        // A model sees the circle that the mutant makes possible only where the bucket is waited for at once.
        let turns = if mutant(Mutant::BucketWaitsForRegion) { 0 } else { TURNS };
        if self.count <= turns {
            if let Some(bucket) = attempt() {
                return bucket;
            }
            self.unlock_region();
        }
        wait()
    }

    /// Locks a region that contains both homes. The bucket is locked.
    ///
    /// # Errors
    /// [`Refused::Busy`]: unlock the bucket, and then call [`wait_for`](Self::wait_for). [`Refused::Retry`] if `home`
    /// belongs to no domain any more.
    #[inline]
    pub fn region(&mut self, home: HomeRef, other: HomeRef) -> Result<Region<'s>, Refused> {
        if let Some(held) = self.held.take() {
            return self.region_held(held, home, other);
        }
        let mut region = match self.regions.try_lock(home) {
            Tried::Locked(region) => region,
            Tried::Busy if mutant(Mutant::BucketWaitsForRegion) => self.regions.lock(home).ok_or(Refused::Retry)?,
            Tried::Busy => return Err(Refused::Busy(home)),
            Tried::Gone => return Err(Refused::Retry),
        };
        if other != home && !region.include(other)? {
            return Err(Refused::Busy(other));
        }
        Ok(region)
    }

    /// As [`region`](Self::region), with a region `held` that the operation has waited for. It may not be one of the
    /// needed regions any more.
    #[cold]
    #[inline(never)]
    fn region_held(&mut self, mut held: Region<'s>, home: HomeRef, other: HomeRef) -> Result<Region<'s>, Refused> {
        if mutant(Mutant::HeldRegionIsTrusted) {
            return Ok(held);
        }
        if !held.is_of(home) && !held.is_of(other) {
            drop(held);
            return self.region(home, other);
        }
        for needed in [home, other] {
            if !held.include(needed)? {
                return Err(Refused::Busy(needed));
            }
        }
        Ok(held)
    }

    /// Waits for the region of `home`, which was busy, and keeps it locked for the next attempt. No bucket is locked.
    #[cold]
    pub fn wait_for(&mut self, home: HomeRef) {
        self.unlock_region();
        self.held = self.regions.lock(home);
        self.count = self.count.saturating_add(1);
    }

    /// Unlocks the region that was waited for.
    pub fn unlock_region(&mut self) {
        self.held = None;
    }
}
