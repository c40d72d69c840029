//! Waking.

use core::num::NonZeroU32;

use super::domain::{Domain, Hashed};
use super::entry::{BATCH, Room, pick, tell, tell_one};
use super::key::Target;
use crate::error::Error;
use crate::sync::wake_barrier;
use crate::sys::probe::probe;
use crate::table::bucket::Guard;
use crate::table::hash::Key;
use crate::table::layout::Layout;
use crate::table::refs::Scheme;

impl<S: Scheme<L>, L: Layout> Domain<S, L> {
    /// Wakes up to `count` waiters of the word, real-time priorities first, then in the order they came: `FUTEX_WAKE`.
    /// Answers how many. `i32::MAX` or more means all that wait now.
    ///
    /// Change the word first. The word itself is not touched: it may be gone already.
    ///
    /// ```
    /// # use std::sync::atomic::AtomicU32;
    /// # use ufutex::{Domain, System};
    /// let domain = Domain::new(&System::new());
    /// assert_eq!(domain.wake(&AtomicU32::new(0), usize::MAX), 0); // nobody waits
    /// ```
    #[inline(always)]
    pub fn wake<T: Target>(&self, target: T, count: usize) -> usize {
        self.wake_bitset(target, count, NonZeroU32::MAX)
    }

    /// As [`wake`](Self::wake), for waiters whose bitset has a bit in common with `bitset`: `FUTEX_WAKE_BITSET`.
    ///
    /// Waiters of a lock ([`lock_pi`](Self::lock_pi)) are not woken: they are handed the lock. Where one of them is met
    /// the wake ends; [`try_wake_bitset`](Self::try_wake_bitset) says so.
    #[inline(always)]
    pub fn wake_bitset<T: Target>(&self, target: T, count: usize, bitset: NonZeroU32) -> usize {
        let place = self.hashed(&target);
        if self.nobody_waits(&place) {
            self.count_wake(0);
            return 0;
        }
        self.wake_somebody(&place, count, bitset.get()).count
    }

    /// As [`wake_bitset`](Self::wake_bitset), but an error where the kernel has one.
    ///
    /// # Errors
    /// [`Error::Invalid`] when a waiter of a lock stands in the word's queue; those before it have been woken.
    pub fn try_wake_bitset<T: Target>(&self, target: T, count: usize, bitset: NonZeroU32) -> Result<usize, Error> {
        let place = self.hashed(&target);
        if self.nobody_waits(&place) {
            self.count_wake(0);
            return Ok(0);
        }
        self.wake_somebody(&place, count, bitset.get()).into_result()
    }

    /// A wake where somebody may wait.
    fn wake_somebody(&self, place: &Hashed, count: usize, bitset: u32) -> Woken {
        let woken = self.wake_hashed(self.key(place.address, place.shared_space), place.hash, count, bitset);
        self.count_wake(woken.count);
        if woken.count > 0 {
            probe!(wake, place.address, woken.count);
        }
        woken
    }

    /// Whether a glance proves that nobody waits there. Everything that the caller stored before is seen by whoever waits
    /// from now on.
    #[inline(always)]
    pub(super) fn nobody_waits(&self, place: &Hashed) -> bool {
        wake_barrier(); // [B] pairs with [A]
        if place.shared_space.is_none() {
            self.scheme.proves_empty(&self.tables, place.hash)
        } else {
            self.global_bucket(place.hash).proves_empty()
        }
    }

    /// Takes waiters off the queue under the lock, and tells them after unlocking.
    pub(super) fn wake_hashed(&self, key: Key, hash: u32, count: usize, bitset: u32) -> Woken {
        let mut room = Room::default();
        loop {
            // No table, no waiter.
            let Some(mut locked) = self.lock(hash, key.space == self.tables.space) else {
                return Woken { count: 0, met_lock_waiter: false };
            };
            let wanted = wanted(&mut locked.guard, key, count);
            if !room.holds(wanted) {
                drop(locked);
                room.make(wanted);
                continue;
            }
            let mut taken = locked.guard.take(key, wanted.min(room.limit()), pick(bitset, count));
            drop(locked);
            let woken = Woken { count: taken.len(), met_lock_waiter: taken.was_stopped };
            if woken.count == 1 {
                // As most do; and without what it takes to tell several.
                if let Some(node) = taken.pop() {
                    // SAFETY: taken, and popped.
                    unsafe { tell_one(node) }.finish();
                }
                return woken;
            }
            let is_left = woken.count == room.limit() && wanted > woken.count;
            drop(tell(taken, core::mem::take(&mut room)));
            if is_left {
                return self.wake_rest(key, hash, wanted - woken.count, count, bitset, woken);
            }
            return woken;
        }
    }

    /// Goes on with a wake for which there was no memory to take all at once: of those who waited then, a batch at a
    /// time.
    #[cold]
    pub(super) fn wake_rest(
        &self,
        key: Key,
        hash: u32,
        mut left: usize,
        count: usize,
        bitset: u32,
        mut woken: Woken,
    ) -> Woken {
        while left > 0 && !woken.met_lock_waiter {
            let Some(mut locked) = self.lock(hash, key.space == self.tables.space) else { break };
            let taken = locked.guard.take(key, left.min(BATCH), pick(bitset, count));
            drop(locked);
            let batch = taken.len();
            woken.met_lock_waiter = taken.was_stopped;
            drop(tell(taken, Room::default()));
            if batch == 0 {
                break;
            }
            woken.count += batch;
            left -= batch;
        }
        woken
    }
}

/// How many of `count` there are to be taken. They are counted only if that is more than there is always room for.
pub(super) fn wanted<L: Layout>(bucket: &mut Guard<'_, L>, key: Key, count: usize) -> usize {
    if count <= BATCH { count } else { bucket.count(key, count) }
}

/// What a wake did.
#[derive(Clone, Copy)]
pub(super) struct Woken {
    pub count: usize,
    /// It ended at a waiter that no wake is meant for.
    pub met_lock_waiter: bool,
}

impl Woken {
    /// The kernel's answer.
    pub fn into_result(self) -> Result<usize, Error> {
        if self.met_lock_waiter { Err(Error::Invalid) } else { Ok(self.count) }
    }
}
