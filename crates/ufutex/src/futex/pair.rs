//! Two buckets locked at once, for operations on two words.

use core::mem::ManuallyDrop;

use super::domain::Domain;
use super::place::Place;
use crate::table::bucket::{Bucket, Guard};
use crate::table::live::{self, Locked, Second};
use crate::table::tables::Global;

/// The buckets of two words, which may be one.
pub(super) struct Pair<'d> {
    /// Dropped by `Pair::drop`, which may yield afterwards.
    first: ManuallyDrop<Locked<'d>>,
    second: Option<Locked<'d>>,
}

impl<'d> Pair<'d> {
    pub fn one(first: Locked<'d>) -> Self {
        Self { first: ManuallyDrop::new(first), second: None }
    }

    pub fn are_two(&self) -> bool {
        self.second.is_some()
    }

    pub fn first(&mut self) -> &mut Guard<'d> {
        &mut self.first
    }

    pub fn second(&mut self) -> &mut Guard<'d> {
        self.second.as_mut().unwrap_or(&mut self.first)
    }
}

impl Drop for Pair<'_> {
    /// Unlocks the second bucket, then the first. If a contender slept on the second one's lock, this thread probably took its CPU. So
    /// this thread yields, once both are unlocked. If more threads than CPUs did nothing but lock pairs and never yielded, a
    /// contender would get the lock only every few milliseconds.
    fn drop(&mut self) {
        let on = self.first.bucket().on;
        let is_contended = self.second.take().is_some_and(Locked::unlock_and_stay);
        // SAFETY: the pair is being dropped, so nothing uses the guard any more.
        unsafe { ManuallyDrop::drop(&mut self.first) };
        if is_contended {
            on.yield_now();
        }
    }
}

impl Domain {
    /// Locks the buckets of both words. During a resize buckets of several tables have no order. So this function only tries
    /// the second bucket. If it is busy, this function unlocks the first bucket, waits for the second, and tries the first.
    pub(super) fn lock_pair(&self, first: &Place, second: &Place) -> Pair<'_> {
        loop {
            if let Some(pair) = self.with_second(self.lock_or_make(first), second) {
                return pair;
            }
            if let Some(mut pair) = self.with_second(self.lock_or_make(second), first) {
                if let Some(first) = &mut pair.second {
                    core::mem::swap(&mut *pair.first, first);
                }
                return pair;
            }
        }
    }

    /// The pair of a locked bucket and that of `second`, unless the latter is busy: then unlocks the former.
    fn with_second<'d>(&'d self, first: Locked<'d>, second: &Place) -> Option<Pair<'d>> {
        let second = match self.lock_second(second, Some(first.bucket())) {
            Second::Locked(second) => Some(second),
            Second::Same => None,
            Second::Busy => return None,
        };
        Some(Pair { first: ManuallyDrop::new(first), second })
    }

    pub(super) fn is_any_global(&self, pair: &mut Pair<'_>, first: &Place, second: &Place) -> bool {
        self.is_global(pair.first().bucket(), first) || self.is_global(pair.second().bucket(), second)
    }

    /// As `lock_pair`, without waiting: `None` if one of the buckets is busy. For a caller that has the graph locked.
    #[cold]
    pub(super) fn try_lock_pair(&self, first: &Place, second: &Place) -> Option<Pair<'_>> {
        self.with_second(self.try_lock(first)?, second)
    }

    /// Locks the bucket of one word if it is free. For a caller that has the graph locked, and no bucket.
    #[cold]
    pub(super) fn try_lock(&self, place: &Place) -> Option<Locked<'_>> {
        match self.lock_second(place, None) {
            Second::Locked(locked) => Some(locked),
            Second::Same | Second::Busy => None,
        }
    }

    /// Tries to lock the bucket of `place`. `first` is the bucket that the caller has locked, if any.
    fn lock_second(&self, place: &Place, first: Option<&Bucket>) -> Second<'_> {
        if place.is_private() {
            return live::try_lock(&self.tables, place.hash, first);
        }
        // The first look-up of a global table by a domain calls the embedder's topology and may make tables, which must not be
        // done with a bucket locked. So until then the result is `Busy`: the caller unlocks, and locks this bucket first.
        self.global_bucket(place, Global::known).map_or(Second::Busy, |bucket| Second::of(bucket, first))
    }
}
