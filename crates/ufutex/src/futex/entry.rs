//! The entries of a bucket's queue: a node, a bitset, and the signal that notifies the waiter.

use alloc::vec::Vec;
use core::ptr::NonNull;

use crate::sync::{MODEL, Mutant, UnsafeCell, mutant};
use crate::table::hash::Key;
use crate::table::list::{Node, Pick, Taken};
use crate::wait::{Rest, Signal, Told};

/// A waiter's entry, in the waiter's own memory. Ownership follows that of the node: see `table::list` and `wait`.
#[repr(C)]
pub(crate) struct Entry {
    // First, so that a pointer to the node is also a pointer to the entry.
    pub(crate) node: Node,
    /// While queued: the waiter's bitset. A wake takes the waiter only if its own bitset has a bit in common with it.
    /// Markers, and waiters of a lock, which is handed to them (see `pi`), have `WAITS_FOR_LOCK`, so no wake takes
    /// them. After a wake has taken the waiter: the bitset with which the wake is passed on if the waiter does not want
    /// it; `0` if the wake was for all waiters and is not passed on.
    bitset: UnsafeCell<u32>,
    pub(crate) signal: Signal,
    /// The moment at which the waiter joined its present queue. Guarded by the bucket's lock while queued.
    since: UnsafeCell<Moment>,
}

/// A moment in the life of a system, counted in operations in pieces that have begun. See "Operations in pieces" in
/// ORDERING.md.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(pub(crate) u64);

impl Moment {
    /// Later than all others. For an operation that is one step: no waiter can come too late for it.
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

    /// Records that the entry joins a queue at the moment `now`, which the caller has read with that queue's bucket
    /// locked.
    ///
    /// # Safety
    /// The caller owns the entry, or holds the lock of the bucket where it is queued.
    pub(crate) unsafe fn set_since(&self, now: Moment) {
        // SAFETY: guaranteed by the caller.
        self.since.with_mut(|s| unsafe { *s = now });
    }

    /// Whether the entry was in this queue when an operation in pieces `began`.
    ///
    /// # Safety
    /// The caller holds the lock of the bucket where it is queued.
    pub(crate) unsafe fn was_there(&self, began: Moment) -> bool {
        // SAFETY: guaranteed by the caller.
        self.since.with(|s| unsafe { *s <= began }) || mutant(Mutant::LateComersAreTaken)
    }

    /// Whether a wake may take this waiter. If not, it waits for a lock.
    ///
    /// # Safety
    /// The caller holds the lock of the bucket where it is queued.
    pub(crate) unsafe fn is_plain(&self) -> bool {
        // SAFETY: guaranteed by the caller.
        self.bitset.with(|b| unsafe { *b != WAITS_FOR_LOCK })
    }

    /// The kind of this waiter, and its bitset.
    ///
    /// # Safety
    /// The caller holds the lock of the bucket where it is queued.
    pub(crate) unsafe fn describe(&self) -> (Kind, u32) {
        // SAFETY: guaranteed by the caller.
        let bitset = self.bitset.with(|b| unsafe { *b });
        let kind = if bitset == WAITS_FOR_LOCK {
            Kind::ForLock
        // SAFETY: as above. The bucket's lock also guards the signal of a waiter that a wake may take.
        } else if unsafe { self.signal.tells_thread() } {
            Kind::Thread
        } else {
            Kind::Task
        };
        (kind, bitset)
    }

    /// The bitset with which the wake is to be passed on; `0` if it is not to be passed on.
    ///
    /// # Safety
    /// The caller is the waiter, and has seen the wake, so the entry is its own again.
    pub(crate) unsafe fn passes_on(&self) -> u32 {
        // SAFETY: guaranteed by the caller.
        self.bitset.with(|b| unsafe { *b })
    }
}

/// The kind of a waiter.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Thread,
    /// A waiter that is woken through a waker.
    Task,
    /// A thread or a task that waits for a lock, which will be handed to it.
    ForLock,
}

/// The bitset of entries that no wake takes: markers, and waiters of locks.
pub(crate) const WAITS_FOR_LOCK: u32 = 0;

/// A wake of at least this many waiters is a wake of all: users of futex(2) pass `INT_MAX` for that.
const ALL: usize = i32::MAX as usize;

/// Decides for each node of a queue what a wake does with it. The wake takes waiters whose bitset has a bit in common
/// with `mask` and which were queued when the operation `began`, and stops at a waiter of a lock. A wake of all waiters
/// is not passed on: its other receivers have been woken, and a waiter that came later must not get a wake that was not
/// for it.
pub(crate) fn pick(mask: u32, count: usize, began: Moment) -> impl Fn(NonNull<Node>) -> Pick {
    let pass_on = if count >= ALL { 0 } else { mask };
    move |node| {
        // SAFETY: every node of a queue is the first field of an entry. Its fields are guarded by the bucket's lock,
        // which is held during the walk.
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

/// The most waiters that an operation visits in order to take them, and the most that it visits in order to move them,
/// before it unlocks a global bucket, which other domains use too. That takes some ten microseconds. In a model, which
/// has few waiters, it is 1.
pub(crate) const PIECE: usize = if MODEL { 1 } else { 256 };

/// The most waiters that a wake can take without allocating memory.
pub(crate) const BATCH: usize = 16;

/// The most waiters that a wake takes without counting them and allocating memory first. Nearly all wakes take no more.
/// In a model, which has few waiters, it is 1.
pub(crate) const AT_ONCE: usize = if MODEL { 1 } else { BATCH };

/// Memory for the work that is left when waiters have been taken off their queue: a [`Rest`] for each. In a domain's
/// own table a wake takes all its waiters at once, so that it is one step. It takes them in pieces only if there is no
/// memory for that.
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

    /// Asks for memory for `count` waiters.
    #[cold]
    pub fn make(&mut self, count: usize) {
        self.is_refused = self.more.try_reserve_exact(count - BATCH).is_err();
    }

    /// The number of waiters that there is room for.
    fn limit(&self) -> usize {
        BATCH + self.more.capacity()
    }
}

/// Notifies waiters that have been taken off the queue, and for which there is `room`. It stores `WOKEN` in each entry.
/// Wakers are called, and threads that sleep apart from their entry are woken, when the result is dropped.
///
/// All waiters are notified before the first waker runs. A waker may drop or poll another of these waiters, or block on
/// a thread that does so, and the notification must not come after that.
pub(crate) fn tell(taken: Taken, room: Room) -> Rests {
    debug_assert!(taken.len() <= room.limit());
    let mut rests = Rests::none();
    rests.more = room.more;
    rests.tell(taken);
    rests
}

/// Notifies one waiter.
///
/// # Safety
/// The caller has taken the node off its queue, and does not access the entry afterwards.
pub(crate) unsafe fn tell_one(node: NonNull<Node>) -> Rest {
    // SAFETY: the node is the first field of an entry that the caller has taken.
    unsafe { Signal::wake(&raw const (*node.cast::<Entry>().as_ptr()).signal) }
}

/// The work that is left for waiters that have been notified. The drop of each [`Rest`] does its part. If one of the
/// wakers panics, the rest of the array and of the vector is dropped, so that nothing is skipped.
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

    /// The number of further elements that there is room for.
    pub(crate) fn room(&self) -> usize {
        (BATCH - self.count) + (self.more.capacity() - self.more.len())
    }

    /// Makes room for one more piece. If there is no memory, and less room than for a batch, returns all elements, and
    /// is empty afterwards. The caller drops the result, which does the work that was left.
    pub(crate) fn make_room(&mut self) -> Option<Self> {
        let is_short = self.room() < PIECE && self.more.try_reserve(PIECE).is_err() && self.room() < BATCH;
        is_short.then(|| core::mem::replace(self, Self::none()))
    }

    /// Notifies waiters that have been taken off the queue, and for which there is room.
    pub(crate) fn tell(&mut self, mut taken: Taken) {
        while let Some(node) = taken.pop() {
            // SAFETY: the caller has taken it off its queue, and it has been popped from `taken`.
            self.push(unsafe { tell_one(node) });
        }
    }

    /// Adds an element, for which there is room.
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
