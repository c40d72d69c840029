//! Moving waiters from one word to another.

use core::ptr::NonNull;

use super::domain::{Domain, Hashed};
use super::entry::{Entry, Room, pick, tell};
use super::key::Target;
use super::pair::Pair;
use super::wake::{Woken, wanted};
use crate::error::Error;
use crate::sync::{Mutant, mutant};
use crate::sys::mem::{Access, Fault, Faults};
use crate::table::hash::Key;
use crate::table::layout::Layout;
use crate::table::list::Node;
use crate::table::refs::Scheme;

/// What a requeue did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Requeued {
    /// How many waiters were woken.
    pub woken: usize,
    /// How many wait for the other word now.
    pub requeued: usize,
}

impl<S: Scheme<L>, L: Layout> Domain<S, L> {
    /// Wakes up to `wake` waiters of `from`, and has up to `requeue` of the rest wait for `to` instead: `FUTEX_REQUEUE`.
    ///
    /// They keep their priorities and their order. Bitsets of waiters do not matter here, as in the kernel. Neither word
    /// is touched. Prefer [`cmp_requeue`](Self::cmp_requeue), which does not miss a change of the word.
    ///
    /// # Errors
    /// [`Error::Invalid`] where a waiter of a lock stands in the queue of `from`; what was done before stays done. Also when
    /// `from` is shared and `to` is private: its waiters may be another domain's.
    pub fn requeue<T: Target, U: Target>(
        &self,
        from: T,
        to: U,
        wake: usize,
        requeue: usize,
    ) -> Result<Requeued, Error> {
        self.requeue_if(&from, None, &to, wake, requeue)
    }

    /// As [`requeue`](Self::requeue), if `from` holds `expected`: `FUTEX_CMP_REQUEUE`. The word is compared and the
    /// waiters are moved in one step.
    ///
    /// ```
    /// # use std::{pin::pin, sync::atomic::AtomicU32, task::Waker};
    /// # use ufutex::{Domain, Requeued, System, WaitOptions, Waiter};
    /// let domain = Domain::new(&System::new());
    /// let (condition, lock) = (AtomicU32::new(0), AtomicU32::new(1));
    /// let mut waiters = [pin!(Waiter::new()), pin!(Waiter::new())];
    /// let queued = waiters.each_mut().map(|waiter| {
    ///     domain.prepare_with(waiter.as_mut(), &condition, 0, &WaitOptions::new(), Waker::noop().clone())
    /// });
    /// assert_eq!(domain.cmp_requeue(&condition, 0, &lock, 1, usize::MAX), Ok(Requeued { woken: 1, requeued: 1 }));
    /// assert_eq!(domain.wake(&lock, 1), 1);
    /// # drop(queued);
    /// ```
    ///
    /// # Errors
    /// As for `requeue`; [`Error::Again`] when the word does not hold `expected`, [`Error::Fault`] when it cannot be
    /// read, [`Error::Invalid`] when it cannot hold `expected` at all.
    pub fn cmp_requeue<T: Target, U: Target>(
        &self,
        from: T,
        expected: T::Value,
        to: U,
        wake: usize,
        requeue: usize,
    ) -> Result<Requeued, Error> {
        if !from.can_hold(expected) {
            return Err(Error::Invalid);
        }
        self.requeue_if(&from, Some(expected), &to, wake, requeue)
    }

    fn requeue_if<T: Target, U: Target>(
        &self,
        from: &T,
        expected: Option<T::Value>,
        to: &U,
        wake: usize,
        requeue: usize,
    ) -> Result<Requeued, Error> {
        let (source, target) = (self.hashed(from), self.hashed(to));
        // Waiters of a shared word may be another domain's, which must not be left with entries in our table.
        if target.shared_space.is_none() && source.shared_space.is_some() {
            return Err(Error::Invalid);
        }
        let key = self.key(source.address, source.shared_space);
        let mut room = Room::default();
        let (mut pair, wanted) = loop {
            let mut pair = self.lock_pair_if_equal(&source, &target, from, expected)?;
            let wanted = wanted(pair.first(), key, wake);
            if room.holds(wanted) {
                break (pair, wanted);
            }
            drop(pair);
            room.make(wanted);
        };
        // Those to be woken are the first, and stay where they are: so those behind them go first.
        let moved = self.move_waiters(&mut pair, key, &target, wake, requeue);
        let limit = room.limit();
        let taken = pair.first().take(key, wanted.min(limit), pick(u32::MAX, wake));
        drop(pair);
        let mut woken = Woken { count: taken.len(), met_lock_waiter: taken.was_stopped };
        drop(tell(taken, room));
        if woken.count == limit {
            woken = self.wake_rest(key, source.hash, wanted - limit, wake, u32::MAX, woken);
        }
        let (woken, met_lock_waiter) = (woken.count, woken.met_lock_waiter || moved.met_lock_waiter);
        if let Some(keys) = moved.new_chain {
            self.note_keys(keys, target.hash, target.shared_space.is_none());
        }
        self.note_requeue(source.address, target.address, woken, moved.count);
        if met_lock_waiter { Err(Error::Invalid) } else { Ok(Requeued { woken, requeued: moved.count }) }
    }

    /// Locks both buckets, if `from` holds `expected` by then.
    pub(super) fn lock_pair_if_equal<T: Target>(
        &self,
        source: &Hashed,
        target: &Hashed,
        from: &T,
        expected: Option<T::Value>,
    ) -> Result<Pair<'_, S, L>, Error> {
        let mut faults = Faults::default();
        loop {
            let pair = self.lock_pair(source, target);
            let Some(expected) = expected else { return Ok(pair) };
            match from.load() {
                Ok(value) if value == expected => return Ok(pair),
                Ok(_) => return Err(Error::Again),
                Err(Fault) => {
                    drop(pair);
                    faults.resolve(|| from.fault_in(Access::Read))?;
                }
            }
        }
    }

    /// Moves up to `count` waiters of `key`, behind the first `skip`, to the target's key.
    fn move_waiters(&self, pair: &mut Pair<'_, S, L>, key: Key, target: &Hashed, skip: usize, count: usize) -> Moved {
        let to = self.key(target.address, target.shared_space);
        let mut moved = Moved::default();
        let mut next = pair.first().first(key);
        let mut skipped = 0;
        while let Some(node) = next
            && moved.count < count
        {
            if !is_plain(node) {
                moved.met_lock_waiter = true;
                break;
            }
            // SAFETY: queued there, and locked.
            next = unsafe { pair.first().after(node) };
            if skipped < skip {
                skipped += 1;
                continue;
            }
            moved.count += 1;
            // A waiter that is to wait for the same word keeps its place, unless it is to do so on another node.
            if to != key || pair.are_two() {
                // SAFETY: queued in the first bucket; both are locked until it is in the second, for `pair` is.
                let new_chain = unsafe {
                    pair.first().take_to(node, to, target.hash);
                    if mutant(Mutant::RequeueLetsGo) {
                        pair.first().let_go();
                    }
                    pair.second().insert(node)
                };
                moved.new_chain = moved.new_chain.or(new_chain);
            }
        }
        moved
    }
}

/// What `move_waiters` did.
#[derive(Default)]
struct Moved {
    count: usize,
    /// How many keys the target's bucket has, if this one is new there.
    new_chain: Option<u32>,
    met_lock_waiter: bool,
}

/// Whether a queued waiter waits to be woken, and not for a lock.
fn is_plain(node: NonNull<Node>) -> bool {
    // SAFETY: every node of a queue is the first field of an entry, and the caller holds the lock of its bucket.
    unsafe { node.cast::<Entry>().as_ref().is_plain() }
}
