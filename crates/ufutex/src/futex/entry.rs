//! What stands in a bucket's queue: a node, a bitset, and how the waiter is told.

use alloc::vec::Vec;
use core::ptr::NonNull;

use crate::sync::{MODEL, Mutant, UnsafeCell, mutant};
use crate::table::hash::Key;
use crate::table::list::{Node, Pick, Taken};
use crate::wait::{Rest, Signal, Told};

/// A waiter's entry, in the waiter's own memory. Ownership follows the node's: see `table::list` and `wait`.
#[repr(C)]
pub(crate) struct Entry {
    // First, so that a pointer to the node is one to the entry.
    pub(crate) node: Node,
    /// While queued: the wakes that may take this waiter. It is `WAITS_FOR_LOCK`, so that no wake may, for a marker and
    /// for a waiter of a lock, to which the lock is handed (see `pi`). After a wake has taken the waiter: the bitset
    /// with which the wake is passed on if the waiter does not want it; 0 if the wake was for all waiters and is not
    /// passed on.
    bitset: UnsafeCell<u32>,
    pub(crate) signal: Signal,
    /// When the waiter joined its present queue. Guarded by the bucket's lock while queued.
    since: UnsafeCell<Moment>,
}

/// A moment in the life of a system: the number of operations in pieces that had begun.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(pub(crate) u64);

impl Moment {
    /// Later than all others: for an operation that is one step, in which no waiter can have come too late.
    pub(crate) const END: Self = Self(u64::MAX);
}

impl Entry {
    pub(crate) fn new(key: Key, hash: u32, priority: u8, bitset: u32, told: Told) -> Self {
        Self {
            node: Node::new(key, hash, priority),
            bitset: UnsafeCell::new(bitset),
            signal: Signal::new(told),
            since: UnsafeCell::new(Moment(0)),
        }
    }

    /// The entry of a marker: see [`marker`](super::marker).
    pub(crate) fn marker(key: Key, hash: u32) -> Self {
        Self { node: Node::marker(key, hash), ..Self::new(key, hash, 0, WAITS_FOR_LOCK, Told::Thread) }
    }

    /// Notes when the entry joins a queue. `now` has to be read with the lock of that queue's bucket held.
    ///
    /// # Safety
    /// The caller owns the entry, or holds the lock of the bucket where it is queued.
    pub(crate) unsafe fn set_since(&self, now: Moment) {
        // SAFETY: says the caller.
        self.since.with_mut(|s| unsafe { *s = now });
    }

    /// Whether the entry was in this queue when an operation in pieces `began`.
    ///
    /// # Safety
    /// The caller holds the lock of the bucket where it is queued.
    pub(crate) unsafe fn was_there(&self, began: Moment) -> bool {
        // SAFETY: says the caller.
        self.since.with(|s| unsafe { *s <= began }) || mutant(Mutant::LateComersAreTaken)
    }

    /// Whether a wake may take it; otherwise it waits for a lock.
    ///
    /// # Safety
    /// The caller holds the lock of the bucket where it is queued.
    pub(crate) unsafe fn is_plain(&self) -> bool {
        // SAFETY: says the caller.
        self.bitset.with(|b| unsafe { *b != WAITS_FOR_LOCK })
    }

    /// What waits here, and its bitset.
    ///
    /// # Safety
    /// The caller holds the lock of the bucket where it is queued.
    pub(crate) unsafe fn describe(&self) -> (Kind, u32) {
        // SAFETY: says the caller.
        let bitset = self.bitset.with(|b| unsafe { *b });
        let kind = if bitset == WAITS_FOR_LOCK {
            Kind::ForLock
        // SAFETY: as above; of a waiter that may be woken it guards this, too.
        } else if unsafe { self.signal.tells_thread() } {
            Kind::Thread
        } else {
            Kind::Task
        };
        (kind, bitset)
    }

    /// The bitset that a wake passed on has; 0 if it is not to be passed on.
    ///
    /// # Safety
    /// The wake has been seen, so the entry is its waiter's again.
    pub(crate) unsafe fn passes_on(&self) -> u32 {
        // SAFETY: says the caller.
        self.bitset.with(|b| unsafe { *b })
    }
}

/// What waits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Thread,
    /// A waiter that is woken through a waker.
    Task,
    /// Either, for a lock that is handed to it.
    ForLock,
}

/// The bitset of those that no wake is meant for.
pub(crate) const WAITS_FOR_LOCK: u32 = 0;

/// A wake of at least this many wakes all waiters: users of futex(2) write `INT_MAX` for all.
const ALL: usize = i32::MAX as usize;

/// What a walk of a queue does with each node: it takes waiters whose bitset has a bit in common with `mask` and which
/// were queued when the operation `began`, and stops at a waiter of a lock. A wake of all waiters is not passed on: its
/// other receivers have been woken, and a waiter that came later must not get a wake that was not for it.
pub(crate) fn pick(mask: u32, count: usize, began: Moment) -> impl Fn(NonNull<Node>) -> Pick {
    let pass_on = if count >= ALL { 0 } else { mask };
    move |node| {
        // SAFETY: every node of a queue is the first field of an entry, whose fields are guarded by the lock that the
        // walk holds.
        let entry = unsafe { node.cast::<Entry>().as_ref() };
        entry.bitset.with_mut(|b| {
            // SAFETY: as above.
            let b = unsafe { &mut *b };
            // SAFETY: as above.
            let was_there = || unsafe { entry.was_there(began) };
            if *b & mask == 0 || !was_there() {
                // SAFETY: as above.
                let is_marker = unsafe { entry.node.is_marker() } && !mutant(Mutant::MarkerEndsWake);
                return if *b == WAITS_FOR_LOCK && !is_marker && was_there() { Pick::Stop } else { Pick::Skip };
            }
            *b = pass_on;
            Pick::Take
        })
    }
}

/// With a global bucket locked, which other domains use too, an operation looks at no more than this many waiters that
/// it takes, and this many that it moves: some ten microseconds' worth. One in a model, which has few waiters.
pub(crate) const PIECE: usize = if MODEL { 1 } else { 256 };

/// How many waiters a wake takes without memory of its own.
pub(crate) const BATCH: usize = 16;

/// How many waiters a wake takes without counting them or asking for memory first. Nearly all wakes take no more. One
/// in a model, which has few waiters.
pub(crate) const AT_ONCE: usize = if MODEL { 1 } else { BATCH };

/// Room for what is left to do for the waiters that a wake takes. In a domain's own table all waiters are taken at
/// once, so that the wake is one step. They are taken in pieces only if there is no memory for that.
#[derive(Default)]
pub(crate) struct Room {
    more: Vec<Rest>,
    is_refused: bool,
}

impl Room {
    /// Whether there is room for `count` waiters. If not, [`make`](Self::make) it with no lock held.
    pub fn holds(&self, count: usize) -> bool {
        count <= self.limit()
    }

    /// Whether memory was asked for and refused.
    pub fn is_refused(&self) -> bool {
        self.is_refused
    }

    /// Asks for memory for this many.
    #[cold]
    pub fn make(&mut self, count: usize) {
        self.is_refused = self.more.try_reserve_exact(count - BATCH).is_err();
    }

    /// How many may be taken.
    fn limit(&self) -> usize {
        BATCH + self.more.capacity()
    }
}

/// Tells waiters that have been taken off the queue, for which there is `room`. Who was to be woken otherwise than by the
/// entry itself is woken when the result is dropped.
///
/// Every one is told before the first waker runs. What a waker does is not ours to say: it may drop another of these
/// waiters, or poll it, or block on a thread that does, and none of them must then wait for us.
pub(crate) fn tell(taken: Taken, room: Room) -> Rests {
    debug_assert!(taken.len() <= room.limit());
    let mut rests = Rests::none();
    rests.more = room.more;
    rests.tell(taken);
    rests
}

/// Tells one waiter.
///
/// # Safety
/// The caller has taken it off its queue; nothing of it is used after this.
pub(crate) unsafe fn tell_one(node: NonNull<Node>) -> Rest {
    // SAFETY: the node is the first field of an entry that the caller has taken.
    unsafe { Signal::wake(&raw const (*node.cast::<Entry>().as_ptr()).signal) }
}

/// What is left to do for waiters that have been told. The drop of each [`Rest`] does it. If one of the wakers panics,
/// the rest of the array and of the vector is dropped, so that nothing is skipped.
#[must_use]
pub(crate) struct Rests {
    few: [Rest; BATCH],
    count: usize,
    more: Vec<Rest>,
}

impl Rests {
    pub(crate) fn none() -> Self {
        Self { few: [const { Rest::NOTHING }; BATCH], count: 0, more: Vec::new() }
    }

    /// How many more can be pushed.
    pub(crate) fn room(&self) -> usize {
        (BATCH - self.count) + (self.more.capacity() - self.more.len())
    }

    /// Makes room for one more piece. If there is no memory and less room than for a batch, answers all that has been
    /// pushed, and is empty afterwards. The caller drops the answer, which does what was left to do.
    pub(crate) fn make_room(&mut self) -> Option<Self> {
        let is_short = self.room() < PIECE && self.more.try_reserve(PIECE).is_err() && self.room() < BATCH;
        is_short.then(|| core::mem::replace(self, Self::none()))
    }

    /// Tells waiters that have been taken off the queue, for which there is room.
    pub(crate) fn tell(&mut self, mut taken: Taken) {
        while let Some(node) = taken.pop() {
            // SAFETY: taken off its queue by the caller, and popped.
            self.push(unsafe { tell_one(node) });
        }
    }

    /// One more, for which there is room.
    pub(crate) fn push(&mut self, rest: Rest) {
        if rest.is_nothing() {
            return;
        }
        match self.few.get_mut(self.count) {
            Some(slot) => {
                *slot = rest;
                self.count += 1;
            }
            None => self.more.push(rest),
        }
    }
}
