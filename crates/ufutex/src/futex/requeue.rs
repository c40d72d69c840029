//! Requeues: move waiters from one word to another.

use core::num::NonZeroU32;
use core::pin::{Pin, pin};
use core::ptr::NonNull;

use super::domain::Domain;
use super::entry::{Entry, Moment, PIECE, PendingWakes, Room};
use super::key::{Key, Space, Target};
use super::marker::Marker;
use super::pair::Pair;
use super::place::Place;
use super::wake::{notify_taken, wanted};
use crate::error::Error;
use crate::sys::mem::{Access, Fault, Faults};
use crate::sys::probe::probe;
use crate::sys::unwind::{Otherwise, call};
use crate::table::hash::TableKey;
use crate::table::list::Node;

/// How many waiters a requeue wakes and moves at most.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Requeue {
    /// How many waiters to wake.
    pub wake: usize,
    /// How many of the rest to move to the second word.
    pub requeue: usize,
}

/// The result of a requeue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Requeued {
    /// How many waiters were woken.
    pub woken: usize,
    /// How many waiters were moved to the second word.
    pub requeued: usize,
}

impl Domain {
    /// Wakes up to `most.wake` waiters of `from`, and moves up to `most.requeue` of the rest to the queue of `to`:
    /// `FUTEX_REQUEUE`.
    ///
    /// If both words are looked up in the domain's own table, a requeue is one step. If one is in a global table, which
    /// other domains use too, a requeue of more than 256 waiters takes several steps, in wake order. It then wakes and
    /// moves waiters that were queued when it began and have not given up since. A requeue of a word to itself moves no
    /// waiter; it counts those that it would move, in as many steps.
    ///
    /// Moved waiters keep their priorities and their order. As in the kernel, the waiters' bitsets do not matter here.
    /// A requeue reads and writes neither word. Prefer [`cmp_requeue`](Self::cmp_requeue), which does not miss a change
    /// of the word.
    ///
    /// # Errors
    /// [`Error::Invalid`] if a waiter of a lock is found in the queue of `from`; what was done before stays done. Also
    /// if `to` is private and `from` is shared, or if `from` is in a [`SharedObject`](crate::SharedObject) and `to` is not:
    /// waiters of `from` may belong to another domain or guest, which does not use `to`.
    pub fn requeue<K: Key, U: Key>(&self, from: K, to: U, most: Requeue) -> Result<Requeued, Error> {
        let places = [self.place(&from), self.place(&to)];
        self.requeue_if(places, || Ok(self.lock_pair(&places[0], &places[1])), most)
    }

    /// As [`requeue`](Self::requeue), if `from` holds `expected`: `FUTEX_CMP_REQUEUE`. The word is compared and the
    /// waiters are moved in one step. If the requeue takes several steps, the word is compared in each of them. The
    /// first step in which it differs or cannot be read ends the requeue, which then returns what was done before.
    ///
    /// ```
    /// # use std::{pin::pin, sync::atomic::AtomicU32, task::Waker};
    /// # use ufutex::{Domain, Requeue, Requeued, System, WaitOptions, Waiter};
    /// let domain = Domain::new(&System::new());
    /// let (condition, lock) = (AtomicU32::new(0), AtomicU32::new(1));
    /// let mut waiters = [pin!(Waiter::new()), pin!(Waiter::new())];
    /// let queued = waiters.each_mut().map(|waiter| {
    ///     domain.prepare_with(waiter.as_mut(), &condition, 0, &WaitOptions::new(), Waker::noop().clone())
    /// });
    /// let most = Requeue { wake: 1, requeue: usize::MAX };
    /// assert_eq!(domain.cmp_requeue(&condition, 0, &lock, most), Ok(Requeued { woken: 1, requeued: 1 }));
    /// assert_eq!(domain.wake(&lock, 1), 1);
    /// # drop(queued);
    /// ```
    ///
    /// # Errors
    /// As for `requeue`; [`Error::Invalid`] when the word cannot hold `expected` at all. In the first step,
    /// [`Error::Again`] when the word does not hold `expected`, and [`Error::Fault`] when it cannot be read.
    pub fn cmp_requeue<T: Target, U: Key>(
        &self,
        from: T,
        expected: T::Value,
        to: U,
        most: Requeue,
    ) -> Result<Requeued, Error> {
        if !from.can_hold(expected) {
            return Err(Error::Invalid);
        }
        let places = [self.place(&from), self.place(&to)];
        let lock = || self.lock_pair_if_equal(&places[0], &places[1], &from, expected);
        self.requeue_if(places, lock, most)
    }

    /// Requeues from the first place to the second. `lock` locks both buckets, if the requeue is still to be done.
    fn requeue_if<'d>(
        &'d self,
        places: [Place; 2],
        lock: impl Fn() -> Result<Pair<'d>, Error>,
        counts: Requeue,
    ) -> Result<Requeued, Error> {
        let [source, target] = places;
        // Waiters of a shared word may belong to another domain, whose entries must not be queued in this domain's
        // table. Waiters of a private word with a node belong to this domain, so they may move.
        let to_own = target.is_private() && !source.space.is_private_of(self.tables.space);
        // Waiters of a shared object may belong to another namespace. This one's tables may be gone before them.
        let is_of_object = |place: &Place| matches!(place.space, Space::Object(..));
        let to_namespace = is_of_object(&source) && !is_of_object(&target);
        if to_own || to_namespace {
            return Err(Error::Invalid);
        }
        let work = Requeuing { keys: [self.key(&source), self.key(&target)], places, counts };
        let mut room = Room::default();
        let noted = loop {
            let mut pair = lock()?;
            let is_long =
                (counts.wake > PIECE || counts.requeue > PIECE) && self.is_any_global(&mut pair, &source, &target);
            let wanted = if is_long { 0 } else { wanted(pair.first(), work.keys[0], work.places[0].hash, counts.wake) };
            if is_long || (!room.holds(wanted) && room.is_refused()) {
                let began = self.begin_in_pieces();
                // In a later step an error only ends the requeue: the caller has to know of the waiters that were woken
                // and moved before.
                let lock = || lock().ok();
                let mut noted = NotedRequeue::new(self, &work);
                let marker = pin!(Marker::new(self, &source));
                self.requeue_in_pieces(marker.as_ref(), Some(pair), &lock, &work, began, &mut noted.done);
                break noted;
            }
            if room.holds(wanted) {
                let mut noted = NotedRequeue::new(self, &work);
                self.requeue_at_once(pair, &work, wanted, room, &mut noted.done);
                break noted;
            }
            drop(pair);
            room.make(wanted);
        };
        noted.into_result()
    }

    /// Wakes the first `wanted` waiters, and moves those behind them, in one step.
    fn requeue_at_once(
        &self,
        mut pair: Pair<'_>,
        work: &Requeuing,
        wanted: usize,
        room: Room,
        done: &mut RequeueProgress,
    ) {
        // Waiters to be woken stand at the front of the queue. Move those behind them first, so that the front stays in
        // place.
        let (key, hash) = (work.keys[0], work.places[0].hash);
        let all = Step { skip: work.counts.wake, most: usize::MAX, began: Moment::END };
        let first = pair.first().first(key, hash);
        self.move_waiters(&mut pair, work, first, &all, done);
        let taken = pair.first().take(key, hash, wanted, self.pick(NonZeroU32::MAX, work.counts.wake, None));
        let section = self.platform().section();
        drop(pair);
        done.woken = taken.len();
        done.met_lock_waiter |= taken.was_stopped;
        notify_taken(taken, room, section);
    }

    /// Wakes and moves waiters that were queued when the operation `began`, a piece at a time. Both buckets are
    /// unlocked between two pieces. `lock` locks them again. It returns `None` if the word no longer holds the expected
    /// value, or cannot be read.
    #[cold]
    fn requeue_in_pieces<'d>(
        &'d self,
        marker: Pin<&Marker<'d>>,
        mut locked: Option<Pair<'d>>,
        lock: &dyn Fn() -> Option<Pair<'d>>,
        work: &Requeuing,
        began: Moment,
        done: &mut RequeueProgress,
    ) {
        let mut pending = PendingWakes::none();
        while let Some(mut pair) = locked.take() {
            let limit = pending.room().min(PIECE).min(work.counts.wake - done.woken);
            let (taken, mut next) =
                marker.take(pair.first(), limit, self.pick(NonZeroU32::MAX, work.counts.wake, Some(began)));
            done.woken += taken.len();
            done.met_lock_waiter |= taken.was_stopped;
            if done.woken == work.counts.wake {
                next = self.move_waiters(&mut pair, work, next, &Step { skip: 0, most: PIECE, began }, done);
            }
            if let Some(next) = next {
                marker.keep(pair.first(), next);
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
                // A waker that panics keeps none of the others from being woken or moved.
                let go_on = Otherwise::new(|| call(|| self.requeue_in_pieces(marker, lock(), lock, work, began, done)));
                drop(full);
                go_on.disarm();
            }
            locked = lock();
        }
    }

    /// Locks both buckets, if `from` holds `expected` by then.
    fn lock_pair_if_equal<T: Target>(
        &self,
        source: &Place,
        target: &Place,
        from: &T,
        expected: T::Value,
    ) -> Result<Pair<'_>, Error> {
        let mut faults = Faults::default();
        loop {
            let pair = self.lock_pair(source, target);
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

    /// Notes the result of a requeue.
    pub(super) fn note_requeue(&self, from: &Place, to: &Place, Requeued { woken, requeued }: Requeued) {
        if woken + requeued == 0 {
            return;
        }
        self.count(|c| {
            c.requeues.add(1);
            c.woken.add(woken as u64);
            c.requeued.add(requeued as u64);
        });
        probe!(requeue, from.address, to.address, woken, requeued);
    }

    /// Moves waiters, from `next` on, to the target's key. Returns the waiter to go on with, if there are more to be
    /// moved.
    fn move_waiters(
        &self,
        pair: &mut Pair<'_>,
        work: &Requeuing,
        mut next: Option<NonNull<Node>>,
        step: &Step,
        done: &mut RequeueProgress,
    ) -> Option<NonNull<Node>> {
        let stays = work.stays_in_place(pair);
        let (mut skip, mut left) = (step.skip, step.most);
        while let Some(node) = next
            && left > 0
        {
            if done.moved == work.counts.requeue {
                return None;
            }
            // SAFETY: every node of a queue is the first field of an entry, and its bucket is locked.
            let entry = unsafe { node.cast::<Entry>().as_ref() };
            // SAFETY: queued in the first bucket, which is locked. This holds for the next two as well.
            next = unsafe { pair.first().after(node) };
            left -= 1;
            // SAFETY: as above.
            if !unsafe { entry.was_there(step.began) } {
                continue;
            }
            // SAFETY: as above.
            if !unsafe { entry.is_plain() } {
                done.met_lock_waiter = true;
                return None;
            }
            if skip > 0 {
                skip -= 1;
                continue;
            }
            done.moved += 1;
            if !stays {
                // SAFETY: queued in the first bucket. `pair` keeps both buckets locked until the node is in the second.
                let new_chain = unsafe {
                    pair.first().take_to(node, work.keys[1], work.places[1].hash);
                    entry.set_since(self.system.joins(entry.node.priority()));

                    pair.second().insert(node)
                };
                done.new_chain = done.new_chain.or(new_chain);
            }
        }
        next.filter(|_| done.moved < work.counts.requeue)
    }
}

/// Which waiters a step of a requeue visits.
struct Step {
    /// Skips this many at the front of the queue.
    skip: usize,
    /// Visits at most this many.
    most: usize,
    /// Moves only waiters that were queued when the operation began.
    began: Moment,
}

/// The request for a requeue.
struct Requeuing {
    /// The word whose waiters are woken or moved, and the word that they are moved to.
    places: [Place; 2],
    keys: [TableKey; 2],
    counts: Requeue,
}

impl Requeuing {
    /// Whether a waiter that is moved keeps its place: source and target are one word, on one node.
    fn stays_in_place(&self, pair: &Pair<'_>) -> bool {
        self.keys[0] == self.keys[1] && self.places[0].hash == self.places[1].hash && !pair.are_two()
    }
}

/// A requeue that has been done. Its drop counts the requeue after the waiters have been woken, also if one of their
/// wakers panics.
struct NotedRequeue<'d> {
    domain: &'d Domain,
    work: &'d Requeuing,
    done: RequeueProgress,
}

impl<'d> NotedRequeue<'d> {
    fn new(domain: &'d Domain, work: &'d Requeuing) -> Self {
        Self { domain, work, done: RequeueProgress::default() }
    }

    fn into_result(self) -> Result<Requeued, Error> {
        if self.done.met_lock_waiter {
            return Err(Error::Invalid);
        }
        Ok(self.done.requeued())
    }
}

impl Drop for NotedRequeue<'_> {
    fn drop(&mut self) {
        let [source, target] = &self.work.places;
        self.domain.note_requeue(source, target, self.done.requeued());
        if let Some(keys) = self.done.new_chain {
            // A table that grows calls the embedder's memory and topology.
            call(|| self.domain.note_keys(keys, target));
        }
    }
}

/// The progress of a requeue.
#[derive(Default)]
struct RequeueProgress {
    woken: usize,
    moved: usize,
    /// The number of keys that the target's bucket has now, if `to` had no waiters there before.
    new_chain: Option<u32>,
    met_lock_waiter: bool,
}

impl RequeueProgress {
    fn requeued(&self) -> Requeued {
        Requeued { woken: self.woken, requeued: self.moved }
    }
}
