//! Parking: queues of threads by address, for locks that make decisions with the queue locked, as `parking_lot_core` has
//! them for `parking_lot`.
//!
//! A futex wait compares a word with the bucket locked. Here a thread that parks or unparks runs its own callbacks then. Each
//! entry of a lot's domain is a [`ParkingPlace`]. A panic of a callback leaves the queue as it was.

use core::ptr::NonNull;

use super::config::DomainOptions;
use super::domain::Domain;
use super::entry::{Entry, Moment, notify_one};
use super::pair::Pair;
use super::place::{Place, Space};
use super::system::System;
use crate::error::Error;
use crate::signal::{Receiver, Signal};
use crate::sync::UnsafeCell;
use crate::sys::clock::Deadline;
use crate::sys::unwind::Otherwise;
use crate::table::bucket::Guard;
use crate::table::hash::{Hash, TableKey};
use crate::table::list::{Node, Pick};
use crate::table::live::{self, Locked};

/// Queues of parked threads, one for each address at which a thread is parked.
pub struct ParkingLot {
    domain: Domain,
}

/// A parked thread's place in a queue, on that thread's stack. Its cells are guarded by its bucket's lock while it is queued.
/// Then they belong to the unparking thread until that notifies the parked thread, and afterwards to the parked thread.
#[repr(C)]
pub struct ParkingPlace {
    // First, so that a pointer to the node is also a pointer to the place.
    entry: Entry,
    park_token: usize,
    unpark_token: UnsafeCell<usize>,
    is_picked: UnsafeCell<bool>,
}

// SAFETY: only one thread at a time accesses the fields that are not atomic, as said above.
unsafe impl Sync for ParkingPlace {}

/// How a park ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Parked {
    /// Another thread unparked this one, with this token.
    Unparked(usize),
    /// `validate` returned `false`.
    Invalid,
    /// The deadline passed.
    TimedOut,
}

/// The decision about a parked thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Filter {
    /// The thread is unparked.
    Unpark,
    /// The thread stays parked.
    Skip,
    /// The thread stays parked, and so do all threads behind it.
    Stop,
}

/// The result of [`Queue::filter`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Filtered {
    /// How many threads are to be unparked.
    pub picked: usize,
    /// Whether other threads are parked there, too.
    pub others: bool,
}

impl ParkingLot {
    /// A lot that is a domain of `system`. No table is allocated.
    #[must_use]
    pub fn new(system: &System) -> Self {
        Self { domain: Domain::with_options(system, DomainOptions::new()) }
    }

    /// Parks the calling thread at `key`, if `validate` returns `true`, until it is unparked or the deadline passes.
    ///
    /// `validate` runs with the queue locked. If it returns `true`, the thread joins the end of the queue, and `before_sleep`
    /// runs with nothing locked. Its result is dropped when the thread has left the queue. If the deadline passes first,
    /// `timed_out` runs with the queue that the thread leaves still locked. It gets the thread's key, which a requeue may have
    /// changed, and whether that key has no thread any more. `validate` and `timed_out` must not use this lot. If
    /// `before_sleep` panics, the thread leaves the queue, and an unpark that has come by then is lost.
    #[inline]
    pub fn park<R>(
        &self,
        key: usize,
        park_token: usize,
        validate: impl FnOnce() -> bool,
        before_sleep: impl FnOnce(PlaceRef) -> R,
        timed_out: impl FnOnce(usize, bool),
        deadline: Option<&Deadline>,
    ) -> Parked {
        let (queue, line) = self.queue_of(key);
        let mut locked = self.domain.lock_or_make(&queue);
        let transfers = locked.note_use(line);
        if !validate() {
            drop(locked);
            self.domain.note_transfers(transfers);
            return Parked::Invalid;
        }
        let signal = Signal::new(Receiver::Thread(self.domain.platform()));
        // No operation in pieces meets parked threads, so their moment does not matter.
        let place = ParkingPlace {
            entry: Entry::new(self.domain.key(&queue), queue.hash, 0, None, signal, Moment(0)),
            park_token,
            unpark_token: UnsafeCell::new(0),
            is_picked: UnsafeCell::new(false),
        };
        // SAFETY: the node is new, and leaves the queue in `sleep` or `leave`. The bucket can count all threads.
        let new_chain = unsafe { locked.insert(place.node()) };
        drop(locked);
        let leave = Otherwise::new(|| self.leave(&place));
        self.domain.note_waiter(new_chain, &queue);
        self.domain.note_transfers(transfers);
        let held = before_sleep(PlaceRef(NonNull::from(&place)));
        leave.disarm();
        let result = self.sleep(&place, deadline, timed_out);
        drop(held);
        result
    }

    /// The place is not queued afterwards, nor after a panic.
    #[inline]
    fn sleep(&self, place: &ParkingPlace, deadline: Option<&Deadline>, timed_out: impl FnOnce(usize, bool)) -> Parked {
        let entry = &place.entry;
        if !entry.signal.sleep(self.domain.platform(), deadline) {
            if let Some(mut guard) = self.lock_whole_queue(entry) {
                // SAFETY: the guard proves that the entry is queued here, and its bucket locked.
                let (key, hash) = unsafe { entry.node.key() };
                // SAFETY: as above.
                unsafe { guard.remove(place.node()) };
                let is_last = guard.first(key, hash).is_none();
                timed_out(key.address as usize, is_last);
                return Parked::TimedOut;
            }
            // An unpark has taken the place first. Its callback has counted this thread as unparked.
            entry.signal.wait_for_waker(self.domain.platform());
        }
        // SAFETY: this thread has been notified, so the place is its own again.
        Parked::Unparked(place.unpark_token.with(|t| unsafe { *t }))
    }

    #[cold]
    fn leave(&self, place: &ParkingPlace) {
        // SAFETY: the guard proves that the place is queued here, and its bucket locked.
        let left = self.domain.with_queued(&place.entry, |guard| unsafe { guard.remove(place.node()) });
        if left.is_none() {
            place.entry.signal.wait_for_waker(self.domain.platform());
        }
    }

    /// Locks the queue of `key`. No thread is parked or unparked there until the `Queue` is dropped or consumed.
    #[inline]
    pub fn lock(&self, key: usize) -> Queue<'_> {
        let (queue, _) = self.queue_of(key);
        let key = self.domain.key(&queue);
        let locked = self.domain.lock_or_make(&queue);
        let first = locked.head(key, queue.hash);
        Queue { locked, key, hash: queue.hash, first }
    }

    /// Locks the queues of both keys, which may be one.
    pub fn lock_both(&self, from: usize, to: usize) -> BothQueues<'_> {
        let ((source, _), (target, _)) = (self.queue_of(from), self.queue_of(to));
        let mut pair = self.domain.lock_pair(&source, &target);
        let key = self.domain.key(&source);
        let first = pair.first().head(key, source.hash);
        BothQueues { lot: self, pair, from: (key, source.hash), to: target, first }
    }

    /// The key at which a parked thread is parked now. `None` if it has been taken off its queue.
    ///
    /// # Safety
    /// `place` comes from the `before_sleep` of a park of this lot, and the result of that `before_sleep` has not been dropped.
    #[must_use]
    pub unsafe fn key_of(&self, place: PlaceRef) -> Option<usize> {
        // SAFETY: the place still exists, as the caller guarantees.
        let entry = unsafe { &place.0.as_ref().entry };
        // SAFETY: the guard proves that the entry is queued, and its bucket locked.
        self.domain.with_queued(entry, |_| unsafe { entry.node.key() }.0.address as usize)
    }

    /// Unparks one thread, wherever it stands in its queue. Returns `false` if it has been taken off its queue already.
    ///
    /// # Safety
    /// As for [`key_of`](Self::key_of).
    pub unsafe fn unpark_place(&self, place: PlaceRef, token: usize) -> bool {
        let node = place.0.cast::<Node>();
        // SAFETY: the place still exists, as the caller guarantees. The guard proves that it is queued.
        let is_ours = unsafe {
            let entry = &place.0.as_ref().entry;
            self.domain.with_queued(entry, |guard| guard.remove(node)).is_some()
        };
        if is_ours {
            // SAFETY: taken off its queue.
            unsafe { ParkingPlace::notify(node, token) };
        }
        is_ours
    }

    /// Locks the bucket of a queued entry when that bucket has all threads parked at the entry's key, which a move may take in
    /// pieces. `None` if the entry is not queued.
    #[inline]
    fn lock_whole_queue(&self, entry: &Entry) -> Option<Guard<'_>> {
        let mut round = 0;
        loop {
            let guard = self.domain.lock_queued(entry)?;
            // SAFETY: the guard proves that the entry is queued, and its bucket locked.
            let (_, hash) = unsafe { entry.node.key() };
            if live::has_whole_queue(&self.domain.tables, guard.bucket(), hash) {
                return Some(guard);
            }
            drop(guard);
            self.domain.platform().wait_for_holder(&mut round);
        }
    }

    /// The number of buckets; 0 before the first use.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.domain.slots()
    }

    /// Sets the number of buckets: see [`Domain::set_slots`].
    ///
    /// # Errors
    /// As there.
    pub fn set_slots(&self, slots: usize) -> Result<(), Error> {
        self.domain.set_slots(slots)
    }

    /// Where the threads that are parked at `key` are queued, and the hash of the key's cache line.
    #[inline(always)]
    fn queue_of(&self, key: usize) -> (Place, u32) {
        let address = key as u64;
        let Hash { bits, line } = self.domain.hasher.hash(address, self.domain.private_salt);
        (Place { address, space: Space::Private, hash: bits }, line)
    }
}

impl core::fmt::Debug for ParkingLot {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("ParkingLot").field("slots", &self.slots()).finish_non_exhaustive()
    }
}

impl ParkingPlace {
    fn node(&self) -> NonNull<Node> {
        NonNull::from(self).cast()
    }

    /// # Safety
    /// `node` is the node of a place that the caller has taken off its queue. The caller does not access the place afterwards.
    unsafe fn notify(node: NonNull<Node>, token: usize) {
        // SAFETY: the place belongs to the caller until the thread is notified, which is the last step.
        unsafe {
            let cell = &raw const (*node.cast::<Self>().as_ptr()).unpark_token;
            (*cell).with_mut(|t| *t = token);
            drop(notify_one(node));
        }
    }
}

/// Names a parked thread's place for [`ParkingLot::key_of`] and [`ParkingLot::unpark_place`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlaceRef(NonNull<ParkingPlace>);

// SAFETY: it is an address. The functions that dereference it are unsafe.
unsafe impl Send for PlaceRef {}

/// The locked queue of one key. Dropping it unlocks the queue without unparking a thread.
#[must_use = "dropping it unlocks the queue"]
pub struct Queue<'l> {
    locked: Locked<'l>,
    key: TableKey,
    hash: u32,
    first: Option<NonNull<Node>>,
}

impl Queue<'_> {
    /// Whether no thread is parked there.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Whether more than one thread is parked there.
    #[inline]
    #[must_use]
    pub fn has_several(&mut self) -> bool {
        // SAFETY: the first is queued here. No other thread can have taken it off since, because the bucket is locked.
        self.first.is_some_and(|first| unsafe { self.locked.after(first) }.is_some())
    }

    /// Calls `filter` with the park token of each parked thread, in the order in which the threads came.
    pub fn filter(&mut self, mut filter: impl FnMut(usize) -> Filter) -> Filtered {
        let mut filtered = Filtered { picked: 0, others: false };
        let mut next = self.first;
        while let Some(node) = next {
            // SAFETY: each entry of a lot's queues is a place. This one is queued here, and the bucket is locked.
            let place = unsafe { node.cast::<ParkingPlace>().as_ref() };
            let answer = filter(place.park_token);
            // SAFETY: as above.
            place.is_picked.with_mut(|p| unsafe { *p = answer == Filter::Unpark });
            match answer {
                Filter::Unpark => filtered.picked += 1,
                Filter::Skip => filtered.others = true,
                Filter::Stop => {
                    filtered.others = true;
                    break;
                }
            }
            // SAFETY: as above.
            next = unsafe { self.locked.after(node) };
        }
        filtered
    }

    /// Unparks the threads that the last [`filter`](Self::filter) picked.
    pub fn unpark_picked(self, filtered: Filtered, token: usize) {
        self.unpark(filtered.picked, token, |node| {
            // SAFETY: as in `filter`.
            let is_picked = unsafe { node.cast::<ParkingPlace>().as_ref() }.is_picked.with(|p| unsafe { *p });
            if is_picked { Pick::Take } else { Pick::Skip }
        });
    }

    /// Unparks the first thread, if there is one.
    #[inline]
    pub fn unpark_first(mut self, token: usize) {
        let Some(first) = self.first else { return };
        // SAFETY: queued here, and the bucket is locked.
        unsafe { self.locked.remove(first) };
        drop(self);
        // SAFETY: taken off its queue.
        unsafe { ParkingPlace::notify(first, token) };
    }

    /// Unparks all threads. Returns how many.
    pub fn unpark_all(self, token: usize) -> usize {
        self.unpark(usize::MAX, token, |_| Pick::Take)
    }

    fn unpark(mut self, count: usize, token: usize, pick: impl FnMut(NonNull<Node>) -> Pick) -> usize {
        let mut taken = self.locked.take(self.key, self.hash, count, pick);
        drop(self);
        let count = taken.len();
        while let Some(node) = taken.pop() {
            // SAFETY: taken off its queue.
            unsafe { ParkingPlace::notify(node, token) };
        }
        count
    }
}

/// The locked queues of two keys. Dropping it unlocks the queues without unparking or moving a thread.
#[must_use = "dropping it unlocks the queues"]
pub struct BothQueues<'l> {
    lot: &'l ParkingLot,
    pair: Pair<'l>,
    from: (TableKey, u32),
    to: Place,
    first: Option<NonNull<Node>>,
}

impl BothQueues<'_> {
    /// How many threads are parked at the first key, counted up to `limit`.
    #[must_use]
    pub fn count(&mut self, limit: usize) -> usize {
        let (key, hash) = self.from;
        if self.first.is_none() { 0 } else { self.pair.first().count(key, hash, limit) }
    }

    /// Unparks the first key's first thread, if `unpark`. Then moves up to `requeue` others to the end of the second queue.
    pub fn unpark_and_requeue(mut self, unpark: bool, requeue: usize, token: usize) {
        let mut next = self.first;
        let unparked = if unpark { next } else { None };
        if let Some(first) = unparked {
            // SAFETY: queued in the first bucket, which is locked.
            unsafe {
                next = self.pair.first().after(first);
                self.pair.first().remove(first);
            }
        }
        let Self { lot, mut pair, from, to, .. } = self;
        let key = lot.domain.key(&to);
        let mut new_chain = None;
        let count = if key == from.0 { 0 } else { requeue };
        for _ in 0..count {
            let Some(node) = next else { break };
            // SAFETY: queued in the first bucket. Both buckets stay locked until the node is in the second.
            unsafe {
                next = pair.first().after(node);
                pair.first().take_to(node, key, to.hash);
                new_chain = new_chain.or(pair.second().insert(node));
            }
        }
        drop(pair);
        // Before the table grows, which calls the embedder's memory and topology: they may panic.
        if let Some(node) = unparked {
            // SAFETY: taken off its queue.
            unsafe { ParkingPlace::notify(node, token) };
        }
        if let Some(keys) = new_chain {
            lot.domain.note_keys(keys, &to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::thread;
    use std::time::Duration;

    const KEY: usize = 64;

    fn park(lot: &ParkingLot) -> Parked {
        lot.park(KEY, 0, || true, |_| (), |_, _| (), None)
    }

    #[test]
    fn thread_that_panics_before_its_sleep_leaves_the_queue() {
        let lot = ParkingLot::new(&System::new());
        let refuses = |_: PlaceRef| -> () { panic!("intended") };
        let parks = || lot.park(KEY, 0, || true, refuses, |_, _| (), None);
        assert!(catch_unwind(AssertUnwindSafe(parks)).is_err());
        assert!(lot.lock(KEY).is_empty());
    }

    /// It parks at 64 keys, in 16 buckets.
    #[test]
    #[cfg(not(ufutex_random_hints))] // which make each use another thread's
    fn one_thread_alone_does_not_grow_the_table() {
        let lot = ParkingLot::new(&System::new());
        let refused = |number: usize| lot.park(KEY + number % 64 * 64, 0, || false, |_| (), |_, _| (), None);
        assert_eq!(refused(0), Parked::Invalid);
        let slots = lot.slots();
        assert!((0..100_000).all(|number| refused(number) == Parked::Invalid));
        assert_eq!(lot.slots(), slots);
    }

    #[test]
    fn requeue_to_the_same_key_keeps_the_order() {
        let lot = ParkingLot::new(&System::new());
        thread::scope(|scope| {
            let threads: [_; 3] = core::array::from_fn(|token| {
                let parks = || park(&lot);
                let thread = scope.spawn(parks);
                while lot.lock_both(KEY, KEY).count(9) <= token {
                    thread::sleep(Duration::from_micros(50));
                }
                thread
            });
            // Moves the first one behind the others, if it moves one.
            lot.lock_both(KEY, KEY).unpark_and_requeue(false, 1, 0);
            for (token, thread) in threads.into_iter().enumerate() {
                lot.lock(KEY).unpark_first(token);
                assert_eq!(thread.join().expect("it does not panic"), Parked::Unparked(token));
            }
        });
        assert!(lot.lock(KEY).is_empty());
    }
}
