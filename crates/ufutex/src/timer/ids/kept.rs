//! The free timers that groups keep for the next ones that are made there: one that a delete has left, or several that
//! `stock` has given the group.

use core::ptr;

use super::{Group, Ids, Locked, Spot, as_timer};
use crate::sync::{MODEL, Mutant, Ordering, mutant};
use crate::timer::entry::Timer;
use crate::timer::store::{Batch, Store};

/// The number of pairs of searches for a free timer, if other threads delete timers meanwhile.
const SEARCHES: usize = 8;

impl Ids {
    /// Gives the group of `id` up to `most` timers from a free list, if it keeps none. Nothing happens if `growth` is in
    /// use.
    ///
    /// `growth` is locked while they are on their way, so that neither `take_free` nor `kept_and`, which lock it too,
    /// misses them.
    pub fn stock(&self, id: u32, most: usize, store: &Store) {
        let early = mutant(Mutant::StockTakesEarly).then(|| store.take_batch(most));
        let Some(mut growth) = self.growth.try_lock() else {
            return early.flatten().into_iter().for_each(|timers| store.give_batch(timers));
        };
        growth.with(|_| {
            // While the table grows, `keeps_one` may have been asked of a group that is not live. So asked again here.
            let wants = |locked: &Locked<'_>| locked.0.group.first_kept().is_none();
            if early.is_none() && !self.lock_live(id).is_some_and(|locked| wants(&locked)) {
                return;
            }
            let Some(timers) = early.unwrap_or_else(|| store.take_batch(most)) else { return };
            match self.lock_live(id) {
                Some(locked) if wants(&locked) => locked.0.group.keep(timers),
                locked => {
                    drop(locked);
                    store.give_batch(timers);
                }
            }
        });
    }

    /// Moves what the group of `id` keeps to a free list, if it keeps more than the one that a delete leaves.
    pub fn unstock(&self, id: u32, store: &Store) {
        // In a model `stock` gives a group one.
        const MANY: u32 = if MODEL { 1 } else { 2 };
        let has_few = |spot: Spot<'_>| spot.group.keeps.load(Ordering::Relaxed) < MANY;
        // While the table grows, that may be of a group that is not live.
        if self.next.load(Ordering::Relaxed).is_null() && self.spot(id).is_none_or(has_few) {
            return;
        }
        self.growth.lock().with(|_| {
            let locked = self.lock_live(id);
            let kept = locked.as_ref().and_then(|locked| locked.0.group.let_all_go());
            drop(locked);
            if let Some(timers) = kept {
                store.give_batch(timers);
            }
        });
    }

    /// Takes a free timer, from the lists by `in_lists` or from a group that keeps one, when no more can be made. `None`
    /// if at some moment all timers were in use, or if timers left the table during each of `SEARCHES` pairs of searches.
    ///
    /// While `growth` is locked, a group gets a free timer only when one leaves the table, which it counts. If two searches
    /// of the groups find nothing and the same count, no group kept a timer when `in_lists` found none in between.
    pub fn take_free<'i>(&'i self, in_lists: impl Fn() -> Option<&'i Timer>) -> Option<&'i Timer> {
        let once = || in_lists().map_or_else(|| self.take_kept(), Ok);
        let twice = || once().or_else(|before| once().map_err(|after| after == before));
        if mutant(Mutant::OneSearch) {
            return self.growth.lock().with(|_| once()).ok();
        }
        for _ in 0..SEARCHES {
            match self.growth.lock().with(|_| twice()) {
                Ok(timer) => return Some(timer),
                Err(true) => break,
                Err(false) => {}
            }
        }
        None
    }

    /// Takes a timer that any group keeps. If none does, returns the number of timers that were ever removed from the
    /// table. The caller holds the lock that keeps the tables from growing.
    fn take_kept(&self) -> Result<&Timer, u32> {
        let mut removed = 0u32;
        let kept = self.find_in_groups(|group| {
            removed = removed.wrapping_add(group.removed.load(Ordering::Relaxed));
            group.first_kept().inspect(|timer| group.let_go(timer))
        });
        kept.ok_or(removed)
    }

    /// The number of timers that groups keep, and the result of `and`. No timers move from a free list to a group
    /// between the two. Deletions and creates are not kept out.
    pub fn kept_and<R>(&self, and: impl FnOnce() -> R) -> (usize, R) {
        self.growth.lock().with(|_| {
            let groups = self.tables().flat_map(|table| (0..table.groups()).map(move |n| table.group(n)));
            (groups.map(|group| group.keeps.load(Ordering::Relaxed) as usize).sum(), and())
        })
    }
}

impl Group {
    /// The first of the timers that are kept here. The group is locked.
    #[inline(always)]
    pub(super) fn first_kept<'t>(&self) -> Option<&'t Timer> {
        as_timer(self.kept.load(Ordering::Relaxed))
    }

    /// Takes the first of the timers that are kept here. The group is locked.
    #[inline(always)]
    pub(super) fn let_go(&self, first: &Timer) {
        // SAFETY: the node of a timer that is kept belongs to the group's lock, which the caller holds.
        self.kept.store(unsafe { (*first.node()).kept() }, Ordering::Relaxed);
        self.keeps.store(self.keeps.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
    }

    /// Takes all timers that are kept here. The group is locked.
    fn let_all_go(&self) -> Option<Batch> {
        let first = self.first_kept()?;
        self.kept.store(ptr::null_mut(), Ordering::Relaxed);
        self.keeps.store(0, Ordering::Relaxed);
        Some(Batch::from_first(first))
    }

    /// Keeps these timers. The group is locked, and keeps none.
    #[inline(always)]
    pub(super) fn keep(&self, timers: Batch) {
        self.kept.store(timers.first.as_ptr(), Ordering::Relaxed);
        self.keeps.store(timers.count as u32, Ordering::Relaxed);
    }
}
