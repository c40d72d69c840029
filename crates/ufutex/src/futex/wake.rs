//! Wakes the waiters of a word, in one step or a piece at a time.

use core::num::NonZeroU32;
use core::pin::{Pin, pin};
use core::ptr::NonNull;

use super::domain::Domain;
use super::entry::{AT_ONCE, Entry, Moment, PIECE, PendingWakes, Room, notify_one};
use super::key::Key;
use super::pair::Pair;
use super::place::Place;
use crate::error::Error;
use crate::sync::wake_barrier;
use crate::sys::unwind::{Otherwise, call};
use crate::table::bucket::{Bucket, Guard};
use crate::table::hash::TableKey;
use crate::table::list::{Most, Node, Taken};
use crate::table::live::{self, Locked};
use crate::table::tables::Global;

impl Domain {
    /// Wakes up to `count` waiters of the word, real-time priorities first, then in the order they came: `FUTEX_WAKE`. Returns
    /// how many. A `count` of `i32::MAX` or more wakes all that wait now; 0 wakes nobody (the system call: one).
    ///
    /// If the word is private and the domain has a table of its own, a wake is one step: no thread sees only some of the
    /// waiters woken, unless memory for more than 16 is refused. In a global table a wake of more than 256 waiters takes
    /// several steps, in wake order. Waiters that come in between are not woken, those that give up are not counted.
    ///
    /// Change the word before the call. For the wake a Relaxed store is enough: a wait sees it, or is found. Store with Release
    /// if a thread that reads the new value, and so does not wait, has to see what was done before. The wake does not access
    /// the word, which may have been freed already: then pass its [`Address`](crate::Address).
    ///
    /// ```
    /// # use std::sync::atomic::AtomicU32;
    /// # use ufutex::{Domain, System};
    /// let domain = Domain::new(&System::new());
    /// assert_eq!(domain.wake(&AtomicU32::new(0), usize::MAX), 0); // nobody waits
    /// ```
    #[inline(always)]
    pub fn wake<K: Key>(&self, key: K, count: usize) -> usize {
        self.wake_bitset(key, count, NonZeroU32::MAX)
    }

    /// Wakes the first waiter of the word, if there is one: see [`wake`](Self::wake). Returns whether there was.
    #[inline(always)]
    pub fn wake_one<K: Key>(&self, key: K) -> bool {
        self.wake(key, 1) != 0
    }

    /// Wakes all waiters of the word: see [`wake`](Self::wake). Returns how many there were.
    #[inline(always)]
    pub fn wake_all<K: Key>(&self, key: K) -> usize {
        self.wake(key, usize::MAX)
    }

    /// As [`wake`](Self::wake), and also returns whether waiters are left. A lock can keep the "somebody waits" bit of
    /// its word set for as long as [`has_more`](Woken::has_more) is true, and so needs no count of its waiters.
    ///
    /// ```
    /// # use std::{pin::pin, sync::atomic::AtomicU32, task::Waker};
    /// # use ufutex::{Domain, System, WaitOptions, Waiter};
    /// let domain = Domain::new(&System::new());
    /// let word = AtomicU32::new(1);
    /// let mut waiters = [pin!(Waiter::new()), pin!(Waiter::new())];
    /// let queued = waiters.each_mut().map(|waiter| {
    ///     domain.prepare_with(waiter.as_mut(), &word, 1, &WaitOptions::new(), Waker::noop().clone())
    /// });
    /// assert!(domain.wake_and_check(&word, 1).has_more);
    /// assert!(!domain.wake_and_check(&word, 1).has_more);
    /// # drop(queued);
    /// ```
    pub fn wake_and_check<K: Key>(&self, key: K, count: usize) -> Woken {
        self.wake_key(key, count, NonZeroU32::MAX, true)
    }

    /// As [`wake`](Self::wake), for waiters whose bitset has a bit in common with `bitset`: `FUTEX_WAKE_BITSET`. In a global
    /// table a step visits 256 waiters, those that it does not wake included. The wake ends at the first waiter of a lock
    /// ([`lock_pi`](Self::lock_pi)), to which the lock is handed; [`try_wake_bitset`](Self::try_wake_bitset) reports that.
    #[inline(always)]
    pub fn wake_bitset<K: Key>(&self, key: K, count: usize, bitset: NonZeroU32) -> usize {
        self.wake_key(key, count, bitset, false).count
    }

    /// As [`wake_bitset`](Self::wake_bitset), but an error where the kernel has one.
    ///
    /// # Errors
    /// [`Error::Invalid`] when a waiter of a lock stands in the word's queue; those before it have been woken.
    pub fn try_wake_bitset<K: Key>(&self, key: K, count: usize, bitset: NonZeroU32) -> Result<usize, Error> {
        self.wake_key(key, count, bitset, false).into_result()
    }

    #[inline(always)]
    fn wake_key<K: Key>(&self, key: K, count: usize, bitset: NonZeroU32, is_to_check: bool) -> Woken {
        let place = self.place(&key);
        if self.nobody_waits(&place) {
            self.note_wake(&place, 0);
            // As in `wake_locked`: `==` compares `is_to_check` too, and two results without waiters are equal.
            return Woken { is_to_check, ..Woken::NOBODY };
        }
        self.wake_locked(place, count, bitset, is_to_check)
    }

    /// The part of a wake after the emptiness check. The place is passed by value: a reference would make each caller keep its
    /// place in memory, also where nobody waits.
    fn wake_locked(&self, place: Place, count: usize, bitset: NonZeroU32, is_to_check: bool) -> Woken {
        let mut noted = Noted { domain: self, place: &place, woken: Woken { is_to_check, ..Woken::NOBODY } };
        // A domain without a table has no waiters.
        let Some(mut locked) = self.lock(&place) else { return noted.woken };
        let (key, hash) = (self.key(&place), place.hash);
        let is_long = count > AT_ONCE && locked.count(key, hash, AT_ONCE + 1) > AT_ONCE;
        let wake = InPieces { place: &place, count, bitset, began: None, woken: &mut noted.woken };
        if is_long || (wake.passes_over() && self.is_global(locked.bucket(), &place)) {
            self.wake_many(locked, wake);
            return noted.woken;
        }
        let taken = locked.take(key, hash, count.min(AT_ONCE), self.pick(bitset, count, None));
        wake.woken.add(&taken, || locked.first(key, hash));
        let section = self.platform().section();
        drop(locked);
        notify_taken(taken, Room::default(), section);
        noted.woken
    }

    /// Whether a lock-free emptiness check proves that the word has no waiters. A later wait sees the caller's earlier stores.
    #[inline(always)]
    pub(super) fn nobody_waits(&self, place: &Place) -> bool {
        wake_barrier(); // [B] pairs with [A]
        if place.is_private() {
            live::proves_empty(&self.tables, place.hash)
        } else {
            self.global_bucket(place, Global::get).is_none_or(Bucket::proves_empty)
        }
    }

    /// As [`wake_locked`](Self::wake_locked), if one step needs memory, or the wake needs several steps, or is passed on.
    #[inline(never)]
    pub(super) fn wake_many<'d>(&'d self, locked: Locked<'d>, mut wake: InPieces<'_>) {
        let InPieces { place, count, bitset, began, .. } = wake;
        let (key, hash) = (self.key(place), place.hash);
        let is_long = count > PIECE || wake.passes_over();
        let mut room = Room::default();
        let locked = room.lock(
            Some(locked),
            || self.lock(place).ok_or(()),
            |locked| {
                let in_pieces = is_long && self.is_global(locked.bucket(), place);
                (!in_pieces).then(|| wanted(locked, key, hash, count))
            },
        );
        let Ok((mut locked, at_once)) = locked else { return };
        let Some(limit) = at_once else {
            return self.wake_in_pieces(Some(locked), &mut PendingWakes::none(), &mut wake);
        };
        let taken = locked.take(key, hash, limit, self.pick(bitset, count, began));
        wake.woken.add(&taken, || locked.first(key, hash));
        let section = self.platform().section();
        drop(locked);
        notify_taken(taken, room, section);
    }

    /// Wakes waiters a piece at a time, because other domains lock the bucket too, or memory is refused: see `in_pieces`.
    pub(super) fn wake_in_pieces<'d>(
        &'d self,
        locked: Option<Locked<'d>>,
        pending: &mut PendingWakes,
        wake: &mut InPieces<'_>,
    ) {
        let InPieces { place, count, bitset, ref mut began, ref mut woken } = *wake;
        let (key, hash) = (self.key(place), place.hash);
        let marker = pin!(Marker::new(self, place));
        self.in_pieces(
            marker.as_ref(),
            locked.map(Pair::one),
            pending,
            &|| self.lock(place).map(Pair::one),
            &mut |pair, first, limit| {
                let locked = pair.first();
                let most = Most { taken: limit.min(count - woken.count), visited: PIECE };
                // SAFETY: `first` is queued in the locked bucket.
                let (taken, next) = unsafe { locked.take_from(first, most, self.pick(bitset, count, *began)) };
                woken.add(&taken, || locked.first(key, hash));
                let next = next.filter(|_| woken.count < count);
                if next.is_some() {
                    began.get_or_insert_with(|| self.system.begin_in_pieces());
                }
                (taken, next)
            },
        );
    }

    /// Does an operation on the waiters of a word a piece at a time. `piece` gets what is locked, the waiter to go on with, and
    /// how many it may take. Those that it has taken are notified with nothing locked. `lock` locks the bucket for each piece,
    /// unless the first has it `locked` already. The operation ends if `lock` returns `None`. Wakers to be run are left in
    /// `pending`, as far as there is memory for them. A waker that panics keeps no other waiter from being visited.
    pub(super) fn in_pieces<'d>(
        &'d self,
        marker: Pin<&Marker<'d>>,
        mut locked: Option<Pair<'d>>,
        pending: &mut PendingWakes,
        lock: &dyn Fn() -> Option<Pair<'d>>,
        piece: &mut dyn FnMut(&mut Pair<'d>, NonNull<Node>, usize) -> Piece,
    ) {
        loop {
            let Some(mut pair) = locked.take().or_else(lock) else { return };
            // SAFETY: the marker is ours. If it is queued, it is in the bucket that is locked as its key's.
            let Some(first) = (unsafe { pair.first().resume(marker.node()) }) else { return };
            let (taken, next) = piece(&mut pair, first, pending.room().min(PIECE));
            if let Some(next) = next {
                // SAFETY: not queued: `resume` has taken it off. It is pinned, and leaves the queue in its drop.
                unsafe { pair.first().pause(marker.node(), next) };
            }
            let section = self.platform().section();
            drop(pair);
            pending.notify(taken);
            drop(section);
            pending.wake_threads();
            if next.is_none() {
                return;
            }
            if let Some(full) = pending.make_room() {
                let go_on = Otherwise::new(|| {
                    call(|| self.in_pieces(marker, None, &mut PendingWakes::none(), lock, piece));
                });
                drop(full);
                go_on.disarm();
            }
        }
    }
}

/// Keeps the position of an operation in pieces among the waiters of a key: see `table::list`. Its drop takes it off its queue.
pub(super) struct Marker<'d> {
    domain: &'d Domain,
    /// An entry that no wake may take. Other threads reach it through the queue.
    entry: Entry,
}

impl<'d> Marker<'d> {
    /// A marker that is not queued: an operation at `place` begins with the first waiter.
    pub fn new(domain: &'d Domain, place: &Place) -> Self {
        Self { domain, entry: Entry::marker(domain.key(place), place.hash) }
    }

    fn node(&self) -> NonNull<Node> {
        NonNull::from(&self.entry).cast()
    }
}

impl Drop for Marker<'_> {
    fn drop(&mut self) {
        let node = self.node();
        // SAFETY: the guard proves that the node is queued in its bucket.
        self.domain.with_queued(&self.entry, |guard| unsafe { guard.remove(node) });
    }
}

/// The waiters that a piece has taken, and the waiter to go on with, if there is one.
pub(super) type Piece = (Taken, Option<NonNull<Node>>);

pub(super) struct InPieces<'a> {
    pub place: &'a Place,
    /// How many waiters the wake may take in all.
    pub count: usize,
    pub bitset: NonZeroU32,
    /// When the wake began: it takes only waiters that were there. `None` in the first piece of a wake that is not passed on.
    pub began: Option<Moment>,
    pub woken: &'a mut Woken,
}

impl InPieces<'_> {
    /// Whether the wake may pass over many waiters: those whose bits it does not have, and those that came after `began`.
    fn passes_over(&self) -> bool {
        self.bitset != NonZeroU32::MAX || self.began.is_some()
    }
}

/// A wake. Its drop counts the wake, also when a waker has panicked.
pub(super) struct Noted<'d> {
    pub domain: &'d Domain,
    pub place: &'d Place,
    pub woken: Woken,
}

impl Drop for Noted<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.domain.note_wake(self.place, self.woken.count);
    }
}

/// Notifies waiters that have been taken, and for which there is `room`. The `section` began before the bucket was unlocked,
/// and ends before a waker is called: a waiter that gives up waits no longer than it takes to notify these.
#[inline(always)]
pub(super) fn notify_taken(mut taken: Taken, room: Room, section: Otherwise<impl FnOnce()>) {
    if taken.len() > 1 {
        return notify_several(taken, room, section);
    }
    // The common cases, without an array on the stack.
    if let Some(node) = taken.pop() {
        // SAFETY: taken off its queue, and popped from `taken`.
        let pending = unsafe { notify_one(node) };
        drop(section);
        drop(pending);
    }
}

#[inline(never)]
fn notify_several(taken: Taken, room: Room, section: Otherwise<impl FnOnce()>) {
    let mut pending = PendingWakes::with(room);
    pending.notify(taken);
    drop(section);
    drop(pending);
}

/// An upper bound for how many waiters a wake of `count` can take. Counts them only beyond `AT_ONCE`, for which there is room.
#[inline]
pub(super) fn wanted(bucket: &mut Guard<'_>, key: TableKey, hash: u32, count: usize) -> usize {
    if count <= AT_ONCE { count } else { bucket.count(key, hash, count) }
}

/// The result of a wake: see [`Domain::wake_and_check`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Woken {
    /// How many waiters were woken.
    pub count: usize,
    /// Whether a waiter of the word was left when the last of these was taken. Others may have come or left since.
    pub has_more: bool,
    pub(super) met_lock_waiter: bool,
    /// Whether `has_more` is to be found out, which takes a search of the queue.
    is_to_check: bool,
}

impl Woken {
    pub(super) const NOBODY: Self = Self { count: 0, has_more: false, met_lock_waiter: false, is_to_check: false };

    /// Adds the waiters that have been `taken`. `first` finds the first one that is left.
    pub(super) fn add(&mut self, taken: &Taken, first: impl FnOnce() -> Option<NonNull<Node>>) {
        self.count += taken.len();
        self.met_lock_waiter |= taken.was_stopped;
        self.has_more = self.is_to_check && first().is_some();
    }

    pub(super) fn into_result(self) -> Result<usize, Error> {
        if self.met_lock_waiter { Err(Error::Invalid) } else { Ok(self.count) }
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use crate::System;
    use core::sync::atomic::AtomicU32;

    #[test]
    fn wake_that_is_passed_on_or_has_a_bitset_may_pass_over_a_crowd() {
        let domain: Domain = Domain::new(&System::new());
        let place = domain.place(&&AtomicU32::new(0));
        let passes_over = |bitset, began| {
            let woken = &mut { Woken::NOBODY };
            InPieces { place: &place, count: 1, bitset, began, woken }.passes_over()
        };
        let (all, few) = (NonZeroU32::MAX, NonZeroU32::MIN);
        assert!(!passes_over(all, None));
        assert!(passes_over(few, None));
        assert!(passes_over(all, Some(domain.system.begin_in_pieces())));
    }
}
