//! Requeues: move waiters from one word to another.

use core::num::NonZeroU32;
use core::pin::pin;
use core::ptr::NonNull;

use super::domain::Domain;
use super::entry::{Entry, Moment, PIECE, PendingWakes, Room};
use super::key::{Key, Target};
use super::pair::Pair;
use super::place::{Place, Space, is_private_of};
use super::wake::{Marker, Piece, notify_taken, wanted};
use crate::error::Error;
use crate::sys::mem::{Access, Fault, Faults};
use crate::sys::probe::probe;
use crate::sys::unwind::call;
use crate::table::hash::TableKey;
use crate::table::list::{Most, Node};

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
    /// Wakes up to `most.wake` waiters of `from`, and moves up to `most.requeue` of the rest to `to`: `FUTEX_REQUEUE`.
    ///
    /// If both words are looked up in the domain's own table, a requeue is one step, unless memory to wake more than 16 is
    /// refused. If one is in a global table, a requeue of more than 256 waiters takes several steps, in wake order, on
    /// waiters that were queued when it began and still are. One of a word to itself moves none, but counts those that it
    /// would. Moved waiters keep priorities and order. Bitsets do not matter, as in the kernel. A requeue accesses neither
    /// word. Prefer [`cmp_requeue`](Self::cmp_requeue), which misses no change of the word. A woken future that is dropped
    /// passes its wake to no waiter that was moved since.
    ///
    /// # Errors
    /// [`Error::Invalid`] if a waiter of a lock is found in the queue of `from`; what was done before stays done. Also
    /// if `to` is private and `from` is shared, or if `from` is in a [`SharedObject`](crate::SharedObject) and `to` is not:
    /// waiters of `from` may belong to another domain or guest, which does not use `to`.
    pub fn requeue<K: Key, U: Key>(&self, from: K, to: U, most: Requeue) -> Result<Requeued, Error> {
        let places = [self.place(&from), self.place(&to)];
        self.requeue_if(places, || Ok(self.lock_pair(&places[0], &places[1])), most)
    }

    /// As [`requeue`](Self::requeue), if `from` holds `expected`: `FUTEX_CMP_REQUEUE`. Each step compares the word. The first
    /// in which it differs or cannot be read ends the requeue, which then returns what was done before.
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
        let lock = || {
            let mut faults = Faults::default();
            loop {
                let pair = self.lock_pair(&places[0], &places[1]);
                match from.load() {
                    Ok(value) if value == expected => return Ok(pair),
                    Ok(_) => return Err(Error::Again),
                    Err(Fault) => {
                        drop(pair);
                        faults.resolve(|| from.fault_in(Access::Read))?;
                    }
                }
            }
        };
        self.requeue_if(places, lock, most)
    }

    fn requeue_if<'d>(
        &'d self,
        places: [Place; 2],
        lock: impl Fn() -> Result<Pair<'d>, Error>,
        most: Requeue,
    ) -> Result<Requeued, Error> {
        let [source, target] = places;
        let keys = [self.key(&source), self.key(&target)];
        // Waiters of a shared word may belong to another domain, whose entries must not be in this domain's table.
        let to_own = target.is_private() && !is_private_of(keys[0], self.tables.space);
        // Waiters of a shared object may belong to another namespace. This one's tables may be gone before them.
        let is_of_object = |place: &Place| matches!(place.space, Space::Object(..));
        let to_namespace = is_of_object(&source) && !is_of_object(&target);
        if to_own || to_namespace {
            return Err(Error::Invalid);
        }
        let (done, new_chain) = (Requeued::default(), None);
        let mut requeuing = Requeuing { domain: self, places, keys, most, done, new_chain, met_lock_waiter: false };
        let mut room = Room::default();
        let (mut pair, at_once) = room.lock(None, &lock, |pair| {
            let is_long = (most.wake > PIECE || most.requeue > PIECE) && self.is_any_global(pair, &source, &target);
            (!is_long).then(|| wanted(pair.first(), keys[0], source.hash, most.wake))
        })?;
        if let Some(limit) = at_once {
            let limits = Most { taken: limit, visited: usize::MAX };
            let first = pair.first().first(keys[0], source.hash);
            let taken = first.map(|first| requeuing.piece(&mut pair, first, limits, None).0);
            let section = self.platform().section();
            drop(pair);
            notify_taken(taken.unwrap_or_default(), room, section);
        } else {
            let began = Some(self.system.begin_in_pieces());
            let marker = pin!(Marker::new(self, &source));
            // A later step's error only ends the requeue, whose result tells of the waiters that were woken and moved before.
            let lock = || lock().ok();
            let mut pending = PendingWakes::none();
            self.in_pieces(marker.as_ref(), Some(pair), &mut pending, &lock, &mut |pair, first, limit| {
                let limits = Most { taken: limit.min(most.wake - requeuing.done.woken), visited: PIECE };
                requeuing.piece(pair, first, limits, began)
            });
        }
        if requeuing.met_lock_waiter { Err(Error::Invalid) } else { Ok(requeuing.done) }
    }

    pub(super) fn note_requeue(&self, from: &Place, to: &Place, done @ Requeued { woken, requeued }: Requeued) {
        if woken + requeued == 0 {
            return;
        }
        self.count(|c| {
            c.requeues.add(1);
            c.woken.add(woken as u64);
            c.requeued.add(requeued as u64);
        });
        probe!(requeue, from.address, to.address, woken, requeued);
        self.observe(|observer| observer.requeued(self.key(from).word(), self.key(to).word(), done));
    }
}

/// A requeue. Its drop counts it after the waiters have been woken, also if one of their wakers panics.
struct Requeuing<'d> {
    domain: &'d Domain,
    places: [Place; 2],
    keys: [TableKey; 2],
    most: Requeue,
    done: Requeued,
    /// The number of keys in the target's bucket, if the target had no waiters before the first was moved there.
    new_chain: Option<u32>,
    met_lock_waiter: bool,
}

impl Requeuing<'_> {
    /// Takes waiters to be woken, from `first` on, then moves those behind them. Visits `limits.visited` of each at most.
    fn piece(&mut self, pair: &mut Pair<'_>, first: NonNull<Node>, limits: Most, began: Option<Moment>) -> Piece {
        let pick = self.domain.pick(NonZeroU32::MAX, self.most.wake, began);
        // SAFETY: the caller guarantees that `first` is queued in the first bucket.
        let (taken, mut next) = unsafe { pair.first().take_from(first, limits, pick) };
        self.done.woken += taken.len();
        self.met_lock_waiter |= taken.was_stopped;
        if self.done.woken == self.most.wake {
            next = self.move_waiters(pair, next, limits.visited, began.unwrap_or(Moment::END));
        }
        (taken, next)
    }

    /// Moves waiters from `next` on, and visits at most `left`. Returns the waiter to go on with, if more are to be moved.
    fn move_waiters(
        &mut self,
        pair: &mut Pair<'_>,
        mut next: Option<NonNull<Node>>,
        mut left: usize,
        began: Moment,
    ) -> Option<NonNull<Node>> {
        let [source, target] = &self.places;
        // A waiter that is moved stays where it is if source and target are one word, on one node.
        let stays = self.keys[0] == self.keys[1] && source.hash == target.hash && !pair.are_two();
        while let Some(node) = next
            && left > 0
        {
            if self.done.requeued == self.most.requeue {
                return None;
            }
            // SAFETY: every node of a queue is the first field of an entry, and its bucket is locked.
            let entry = unsafe { node.cast::<Entry>().as_ref() };
            // SAFETY: queued in the first bucket, which is locked. This holds for the next two as well.
            next = unsafe { pair.first().after(node) };
            left -= 1;
            // SAFETY: as above.
            if unsafe { entry.since() } > began {
                continue;
            }
            // SAFETY: as above.
            if unsafe { entry.bitset() }.is_none() {
                self.met_lock_waiter = true;
                return None;
            }
            self.done.requeued += 1;
            if !stays {
                // SAFETY: queued in the first bucket. `pair` keeps both buckets locked until the node is in the second.
                let new_chain = unsafe {
                    pair.first().take_to(node, self.keys[1], target.hash);
                    entry.set_since(self.domain.system.joins(entry.node.priority()));
                    pair.second().insert(node)
                };
                self.new_chain = self.new_chain.or(new_chain);
            }
        }
        next.filter(|_| self.done.requeued < self.most.requeue)
    }
}

impl Drop for Requeuing<'_> {
    fn drop(&mut self) {
        let [source, target] = &self.places;
        self.domain.note_requeue(source, target, self.done);
        if let Some(keys) = self.new_chain {
            // A table that grows calls the embedder's memory and topology.
            call(|| self.domain.note_keys(keys, target));
        }
    }
}
