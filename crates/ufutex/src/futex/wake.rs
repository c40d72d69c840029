//! Waking.

use core::num::NonZeroU32;

use super::domain::Domain;
use super::entry::{BATCH, pick, tell};
use super::key::Target;
use crate::sync::wake_barrier;
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
    #[inline(always)]
    pub fn wake_bitset<T: Target>(&self, target: T, count: usize, bitset: NonZeroU32) -> usize {
        let place = self.hashed(&target);
        wake_barrier(); // [B] pairs with [A]
        let nobody = if place.shared_space.is_none() {
            self.scheme.proves_empty(&self.tables, place.hash)
        } else {
            self.tables.global.bucket(place.hash).proves_empty()
        };
        if nobody {
            self.count_wake(0);
            return 0;
        }
        let key = self.key(place.address, place.shared_space);
        let woken = self.wake_hashed(key, place.hash, count, bitset.get());
        self.count_wake(woken);
        woken
    }

    /// Takes waiters off the queue under the lock, and tells them after unlocking, a batch at a time.
    pub(super) fn wake_hashed(&self, key: Key, hash: u32, count: usize, bitset: u32) -> usize {
        let (mut woken, mut left) = (0, count);
        loop {
            // No table, no waiter.
            let Some(mut locked) = self.lock(hash, key.space == self.tables.space) else { return woken };
            if woken == 0 {
                // Those who wait now: not those who come between two batches.
                left = left.min(locked.guard.waiters() as usize);
            }
            let taken = locked.guard.take(key, left.min(BATCH), pick(bitset, count));
            drop(locked);
            let batch = taken.len();
            tell(taken);
            woken += batch;
            left -= batch;
            if batch < BATCH || left == 0 {
                return woken;
            }
        }
    }
}
