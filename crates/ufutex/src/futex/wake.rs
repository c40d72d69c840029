//! Wakes the waiters of a word, in one step or a piece at a time.

use core::num::NonZeroU32;
use core::pin::{Pin, pin};
use core::ptr::NonNull;

use super::domain::Domain;
use super::entry::{AT_ONCE, Moment, PIECE, PendingWakes, Room, Way, notify_one};
use super::key::Key;
use super::marker::Marker;
use super::place::Place;
use crate::error::Error;
use crate::sync::wake_barrier;
use crate::sys::platform::Section;
use crate::sys::unwind::{Otherwise, call};
use crate::table::bucket::{Bucket, Guard};
use crate::table::hash::TableKey;
use crate::table::list::{Most, Node, Taken};
use crate::table::live::{self, Locked};
use crate::table::tables::Global;

impl Domain {
    /// Wakes up to `count` waiters of the word, real-time priorities first, then in the order they came: `FUTEX_WAKE`.
    /// Returns how many it woke. A `count` of `i32::MAX` or more wakes all that wait now. A `count` of 0 wakes nobody,
    /// while the system call wakes one.
    ///
    /// If the word is private and the domain has a table of its own, a wake is one step: no thread sees some of the
    /// waiters woken and others not. In a global table, which other domains use too, a wake of more than 256 waiters
    /// takes several steps, in wake order. Waiters that come between two steps are not woken, whatever their priority.
    /// A waiter that gives up between two steps is not counted.
    ///
    /// Change the word before the call. For the wake a Relaxed store is enough: a wait sees it, or is found. Store with
    /// Release if a thread that reads the new value, and so does not wait, has to see what was done before. The wake
    /// itself does not read or write the word, whose memory may have been freed already: then pass its
    /// [`Address`](crate::Address) in place of a reference.
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

    /// As [`wake`](Self::wake), for waiters whose bitset has a bit in common with `bitset`: `FUTEX_WAKE_BITSET`. In a
    /// global table it takes several steps if it visits more than 256 waiters, including those that it does not wake.
    ///
    /// Waiters of a lock ([`lock_pi`](Self::lock_pi)) are not woken: the lock is handed to them. The wake ends at the
    /// first of them in the queue; [`try_wake_bitset`](Self::try_wake_bitset) reports that as an error.
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
            self.note_wake(place.address, 0);
            return Woken { is_to_check, ..Woken::NOBODY }; // two results without waiters are equal
        }
        self.wake_locked(place, count, bitset, is_to_check)
    }

    /// A wake of a word that may have waiters.
    ///
    /// It takes the place by value: a reference would make each caller keep its place in memory, also where nobody
    /// waits.
    fn wake_locked(&self, place: Place, count: usize, bitset: NonZeroU32, is_to_check: bool) -> Woken {
        let mut noted = Noted { domain: self, place: &place, woken: Woken { is_to_check, ..Woken::NOBODY } };
        self.wake_place(&place, count, bitset, None, &mut noted.woken);
        noted.woken
    }

    /// Whether a lock-free emptiness check proves that the word has no waiters. A wait that begins from now on sees
    /// everything that the caller stored before.
    #[inline(always)]
    pub(super) fn nobody_waits(&self, place: &Place) -> bool {
        wake_barrier(); // [B] pairs with [A]
        if place.is_private() {
            live::proves_empty(&self.tables, place.hash)
        } else {
            self.global_bucket(place, Global::get).is_none_or(Bucket::proves_empty)
        }
    }

    /// Takes waiters off the queue under the lock, and wakes them after unlocking. `woken` says how many were taken,
    /// also if one of their wakers panics. A wake that `began` earlier, and is passed on, takes those that were there.
    #[inline(always)]
    pub(super) fn wake_place(
        &self,
        place: &Place,
        count: usize,
        bitset: NonZeroU32,
        began: Option<Moment>,
        woken: &mut Woken,
    ) {
        // A domain without a table has no waiters.
        let Some(mut locked) = self.lock(place) else { return };
        let (key, hash) = (self.key(place), place.hash);
        let limit = wanted(&mut locked, key, hash, count.min(AT_ONCE + 1));
        let wake = InPieces { place, count, bitset, began, woken };
        if limit > AT_ONCE || (wake.passes_over() && self.is_global(locked.bucket(), place)) {
            return self.wake_many(locked, wake);
        }
        let taken = locked.take(key, hash, limit, self.pick(bitset, count, began));
        wake.woken.add(&taken, || locked.first(key, hash));
        let section = self.platform().section();
        drop(locked);
        notify_taken(taken, Room::default(), section);
    }

    /// As [`wake_place`](Self::wake_place), if one step needs memory, or the wake needs several steps.
    #[inline(never)]
    fn wake_many<'d>(&'d self, mut locked: Locked<'d>, mut wake: InPieces<'_>) {
        let InPieces { place, count, bitset, began, .. } = wake;
        let (key, hash) = (self.key(place), place.hash);
        let mut room = Room::default();
        loop {
            let is_long = (count > PIECE || wake.passes_over()) && self.is_global(locked.bucket(), place);
            let wanted = if is_long { 0 } else { wanted(&mut locked, key, hash, count) };
            match room.way(wanted, is_long) {
                Way::AtOnce => {
                    let taken = locked.take(key, hash, wanted, self.pick(bitset, count, began));
                    wake.woken.add(&taken, || locked.first(key, hash));
                    let section = self.platform().section();
                    drop(locked);
                    return notify_taken(taken, room, section);
                }
                Way::InPieces => return self.wake_in_pieces(Some(locked), &mut PendingWakes::none(), &mut wake),
                Way::NeedsRoom => drop(locked),
            }
            room.make(wanted);
            let Some(again) = self.lock(place) else { return };
            locked = again;
        }
    }

    /// Wakes waiters a piece at a time: other domains lock the bucket too, or there is no memory to take all waiters at
    /// once. `locked` is the bucket if it is locked already.
    ///
    /// Wakers to be run are left in `pending`, as far as there is memory for them.
    pub(super) fn wake_in_pieces<'d>(
        &'d self,
        locked: Option<Locked<'d>>,
        pending: &mut PendingWakes,
        wake: &mut InPieces<'_>,
    ) {
        let InPieces { place, count, bitset, ref mut began, ref mut woken } = *wake;
        let (key, hash) = (self.key(place), place.hash);
        let marker = pin!(Marker::new(self, place));
        self.in_pieces(marker.as_ref(), locked, pending, &|| self.lock(place), guard, &mut |locked, first, limit| {
            let most = Most { taken: limit.min(count - woken.count), visited: PIECE };
            // SAFETY: `first` is queued in the locked bucket.
            let (taken, next) = unsafe { locked.take_from(first, most, self.pick(bitset, count, *began)) };
            woken.add(&taken, || locked.first(key, hash));
            let next = next.filter(|_| woken.count < count);
            if next.is_some() {
                began.get_or_insert_with(|| self.begin_in_pieces());
            }
            (taken, next)
        });
    }

    /// Does an operation on the waiters of a word a piece at a time. `piece` gets what is locked, the waiter to go on
    /// with, and how many it may take. Those that it has taken are notified with nothing locked. Other operations may lock
    /// the bucket between two pieces, and a resize may move the waiters to another one.
    ///
    /// `locked` is for the first piece, `lock` locks it for the others, and `guard` is the word's bucket in it. The
    /// operation ends if `lock` returns `None`. Wakers to be run are left in `pending`, as far as there is memory for them.
    /// A waker that panics keeps none of the other waiters from being visited.
    pub(super) fn in_pieces<'d, B>(
        &'d self,
        marker: Pin<&Marker<'d>>,
        mut locked: Option<B>,
        pending: &mut PendingWakes,
        lock: &dyn Fn() -> Option<B>,
        guard: fn(&mut B) -> &mut Guard<'d>,
        piece: &mut dyn FnMut(&mut B, NonNull<Node>, usize) -> Piece,
    ) {
        loop {
            let Some(mut bucket) = locked.take().or_else(lock) else { return };
            let Some(first) = marker.next(guard(&mut bucket)) else { return };
            let (taken, next) = piece(&mut bucket, first, pending.room().min(PIECE));
            if let Some(next) = next {
                marker.keep(guard(&mut bucket), next);
            }
            let section = self.platform().section();
            drop(bucket);
            pending.notify(taken);
            drop(section);
            pending.wake_threads();
            if next.is_none() {
                return;
            }
            if let Some(full) = pending.make_room() {
                let go_on = Otherwise::new(|| {
                    call(|| self.in_pieces(marker, None, &mut PendingWakes::none(), lock, guard, piece));
                });
                drop(full);
                go_on.disarm();
            }
        }
    }

    /// See [`System::begin_in_pieces`](super::system::System).
    pub(super) fn begin_in_pieces(&self) -> Moment {
        self.system.begin_in_pieces()
    }
}

/// The waiters that a piece has taken, and the waiter to go on with, if there is one.
pub(super) type Piece = (Taken, Option<NonNull<Node>>);

fn guard<'a, 'd>(locked: &'a mut Locked<'d>) -> &'a mut Guard<'d> {
    locked
}

/// The state of a wake in pieces.
pub(super) struct InPieces<'a> {
    pub place: &'a Place,
    /// How many waiters the wake may take in all.
    pub count: usize,
    pub bitset: NonZeroU32,
    /// When the wake began: it takes only waiters that were there. `None` in the first piece of a wake that is not passed
    /// on: no waiter can have come too late for that.
    pub began: Option<Moment>,
    /// How many have been woken so far.
    pub woken: &'a mut Woken,
}

impl InPieces<'_> {
    /// Whether the wake may pass over many waiters: those whose bits it does not have, and those that came after `began`.
    fn passes_over(&self) -> bool {
        self.bitset != NonZeroU32::MAX || self.began.is_some()
    }
}

/// A wake. Its drop counts the wake, also when a waker has panicked.
struct Noted<'d> {
    domain: &'d Domain,
    place: &'d Place,
    woken: Woken,
}

impl Drop for Noted<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.domain.note_wake(self.place.address, self.woken.count);
    }
}

/// Notifies waiters that have been taken off the queue, and for which there is `room`. The `section` began before the
/// bucket was unlocked, and ends before a waker is called: a waiter that gives up finds the waker on a CPU, and waits
/// for no longer than it takes to notify these waiters.
#[inline(always)]
pub(super) fn notify_taken(mut taken: Taken, room: Room, section: Section) {
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
fn notify_several(taken: Taken, room: Room, section: Section) {
    let mut pending = PendingWakes::with(room);
    pending.notify(taken);
    drop(section);
    drop(pending);
}

/// An upper bound for how many waiters a wake of `count` can take. Waiters are counted only if `count` is more than
/// `AT_ONCE`, for which there is always room.
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
    /// The wake stopped at a waiter of a lock.
    pub(super) met_lock_waiter: bool,
    /// Whether `has_more` is to be found out, which takes a search of the queue.
    is_to_check: bool,
}

impl Woken {
    pub(super) const NOBODY: Self = Self { count: 0, has_more: false, met_lock_waiter: false, is_to_check: false };

    /// Adds the waiters that have been `taken`. `first` finds the first one that is left.
    pub(super) fn add(&mut self, taken: &Taken, first: impl FnOnce() -> Option<NonNull<Node>>) {
        self.count += taken.len();
        self.met_lock_waiter = taken.was_stopped;
        self.has_more = self.is_to_check && first().is_some();
    }

    /// The result that the kernel has.
    pub(super) fn into_result(self) -> Result<usize, Error> {
        if self.met_lock_waiter { Err(Error::Invalid) } else { Ok(self.count) }
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use crate::System;
    use core::sync::atomic::AtomicU32;

    /// In a global bucket such wakes go in pieces, whatever their count is.
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
        assert!(passes_over(all, Some(domain.begin_in_pieces())));
    }
}
