//! The entries of a bucket's queue, and what a wake does with those that it takes.

use alloc::vec::Vec;
use core::num::NonZeroU32;
use core::ptr::NonNull;

use super::domain::Domain;
use crate::signal::{PendingWake, Receiver, Signal};
use crate::sync::UnsafeCell;
use crate::table::hash::TableKey;
use crate::table::list::{Node, Pick, Taken};

/// A waiter's entry, in the waiter's own memory. Ownership follows that of the node: see `table::list` and `signal`.
#[repr(C)]
pub(crate) struct Entry {
    // First, so that a pointer to the node is also a pointer to the entry.
    pub(crate) node: Node,
    /// While the entry is queued, the bucket's lock guards its `bitset`, by which wakes take it; `None`: it is a marker, a parked
    /// thread, or a waiter of a lock, to which the lock is handed (see `pi`). Once a wake has taken the entry, `bitset` says which
    /// waiter gets the wake if this one does not want it; `None`: none, because it was a wake of all.
    pub(crate) signal: Signal,
    /// When the waiter joined its present queue, or when a wake took it, and the `Observer::waker_id` of that. Guarded as the bitset.
    since: UnsafeCell<Moment>,
    pub(crate) waker: UnsafeCell<u64>,
}

/// A moment in the life of a system: how many operations in pieces had begun, plus how many waiters with a real-time
/// priority had joined a queue. See "Operations in pieces" in ORDERING.md.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(pub(crate) u64);

impl Moment {
    /// Later than all others. It is the beginning of an operation in one step, which takes every waiter that it finds.
    pub(crate) const END: Self = Self(u64::MAX);
}

impl Entry {
    /// An entry that joins its queue at the moment `since`, which the caller has read with the queue's bucket locked.
    pub(crate) fn new(
        key: TableKey,
        hash: u32,
        priority: u8,
        bitset: Option<NonZeroU32>,
        mut signal: Signal,
        since: Moment,
    ) -> Self {
        signal.bitset = UnsafeCell::new(bitset);
        Self { node: Node::new(key, hash, priority), signal, since: UnsafeCell::new(since), waker: UnsafeCell::new(0) }
    }

    pub(crate) fn marker(key: TableKey, hash: u32) -> Self {
        Self { node: Node::marker(key, hash), ..Self::new(key, hash, 0, None, Signal::new(Receiver::TAKEN), Moment(0)) }
    }

    /// # Safety
    /// The caller owns the entry, or holds the lock of the bucket where it is queued.
    pub(crate) unsafe fn set_since(&self, now: Moment) {
        // SAFETY: guaranteed by the caller.
        self.since.with_mut(|s| unsafe { *s = now });
    }

    /// # Safety
    /// As for [`bitset`](Self::bitset).
    pub(crate) unsafe fn since(&self) -> Moment {
        // SAFETY: guaranteed by the caller.
        self.since.with(|s| unsafe { *s })
    }

    /// # Safety
    /// The caller holds the lock of the bucket where the entry is queued, or is the waiter and has seen the wake.
    pub(crate) unsafe fn bitset(&self) -> Option<NonZeroU32> {
        // SAFETY: guaranteed by the caller.
        self.signal.bitset.with(|b| unsafe { *b })
    }

    /// Counts the wake that has come as received: even if the waiter is dropped, the wake is not passed on.
    ///
    /// # Safety
    /// The caller is the waiter, and has been notified of the wake.
    pub(crate) unsafe fn keep_wake(&self) {
        // SAFETY: guaranteed by the caller. The thread that calls a lent waker does not access this field.
        self.signal.bitset.with_mut(|b| unsafe { *b = None });
    }
}

/// A wake of at least this many waiters is a wake of all: users of futex(2) pass `INT_MAX` for that.
const ALL: usize = i32::MAX as usize;

impl Domain {
    /// Decides for each node of a queue, whose bucket is locked, what a wake does with it. The wake takes waiters whose bitset
    /// has a bit in common with `mask`, if they were queued when the operation `began`: all if that is `None`. It stops at a
    /// waiter of a lock. A waiter that is taken notes what becomes of the wake if it does not want it. A wake of fewer than
    /// [`ALL`] goes to one that was queued at the moment of the wake: `began`, or now if the operation is one step.
    #[inline(always)]
    pub(super) fn pick(
        &self,
        mask: NonZeroU32,
        count: usize,
        began: Option<Moment>,
    ) -> impl Fn(NonNull<Node>) -> Pick + use<> {
        let (began, now) = (began.unwrap_or(Moment::END), self.system.now());
        let (pass_on, waker_id) = ((count < ALL).then_some(mask), self.observe(|observer| observer.waker_id()));
        move |node| {
            // SAFETY: every queued node is the first field of an entry, which the bucket's lock guards during the walk.
            let entry = unsafe { node.cast::<Entry>().as_ref() };
            // SAFETY: as above.
            let was_there = || unsafe { entry.since() <= began };
            // SAFETY: as above.
            entry.signal.bitset.with_mut(|bitset| match unsafe { *bitset } {
                Some(bits) if bits.get() & mask.get() != 0 && was_there() => {
                    // SAFETY: as above.
                    unsafe {
                        *bitset = pass_on;
                        entry.set_since(began.min(now));
                        if waker_id != 0 {
                            entry.waker.with_mut(|c| *c = waker_id);
                        }
                    }
                    Pick::Take
                }
                None if was_there() => Pick::Stop,
                _ => Pick::Skip,
            })
        }
    }
}

/// After it has visited this many waiters to take, and as many to move, an operation unlocks a global bucket, for other
/// domains.
pub(crate) const PIECE: usize = 256;

/// The most waiters that a wake can take without allocating memory.
pub(crate) const BATCH: usize = 16;

/// The most waiters that a wake takes without counting them first. Nearly all wakes take no more.
pub(crate) const AT_ONCE: usize = BATCH;

/// Memory for a [`PendingWake`] of each waiter taken. In a domain's own table a wake is one step, unless memory is refused.
#[derive(Default)]
pub(crate) struct Room {
    more: Vec<PendingWake>,
    is_refused: bool,
}

impl Room {
    /// Locks what an operation takes its waiters from, by `lock` unless it is `locked` already, and makes room for as many
    /// waiters as `wanted` returns. The second result is that number. It is `None` if the operation has to take a piece at a
    /// time, because memory was refused, or because `wanted` returned `None`: other domains lock a bucket too. After memory was
    /// asked for, `lock` and `wanted` are called again.
    #[inline(always)]
    pub fn lock<G, E>(
        &mut self,
        mut locked: Option<G>,
        lock: impl Fn() -> Result<G, E>,
        mut wanted: impl FnMut(&mut G) -> Option<usize>,
    ) -> Result<(G, Option<usize>), E> {
        loop {
            let mut guard = if let Some(guard) = locked.take() { guard } else { lock()? };
            let Some(count) = wanted(&mut guard) else { return Ok((guard, None)) };
            let has_room = count <= BATCH + self.more.capacity();
            if has_room || self.is_refused {
                return Ok((guard, has_room.then_some(count)));
            }
            drop(guard);
            self.make(count);
        }
    }

    #[cold]
    fn make(&mut self, count: usize) {
        self.is_refused = self.more.try_reserve_exact(count - BATCH).is_err();
    }
}

/// # Safety
/// The caller has taken the node off its queue, and does not access the entry afterwards.
pub(crate) unsafe fn notify_one(node: NonNull<Node>) -> PendingWake {
    // SAFETY: the node is the first field of an entry that the caller has taken.
    unsafe { Signal::wake(&raw const (*node.cast::<Entry>().as_ptr()).signal) }
}

/// The work that is left for notified waiters: wakers are called, and threads that sleep apart from their entry are woken. The
/// drop of each [`PendingWake`] does its part, also if a waker panics. All waiters are notified before the first waker runs,
/// which may drop or poll another of these waiters, or block on a thread that does so.
#[must_use]
pub(crate) struct PendingWakes {
    few: [PendingWake; BATCH],
    count: usize,
    more: Vec<PendingWake>,
}

impl Drop for PendingWakes {
    /// Wakes the threads before the wakers are called: a waker may block on one of them.
    fn drop(&mut self) {
        self.run_threads();
    }
}

impl PendingWakes {
    pub(crate) fn none() -> Self {
        Self::with(Room::default())
    }

    pub(crate) fn with(room: Room) -> Self {
        Self { few: [const { PendingWake::NOTHING }; BATCH], count: 0, more: room.more }
    }

    pub(crate) fn calls_wakers(&self) -> bool {
        self.few[..self.count].iter().chain(&self.more).any(PendingWake::calls_waker)
    }

    pub(crate) fn room(&self) -> usize {
        (BATCH - self.count) + (self.more.capacity() - self.more.len())
    }

    /// Makes room for one more piece. If memory is refused, and less than a batch fits, moves all elements into the result.
    pub(crate) fn make_room(&mut self) -> Option<Self> {
        let is_short = self.room() < PIECE && self.more.try_reserve(PIECE).is_err() && self.room() < BATCH;
        is_short.then(|| core::mem::replace(self, Self::none()))
    }

    pub(crate) fn notify(&mut self, mut taken: Taken) {
        debug_assert!(taken.len() <= self.room());
        while let Some(node) = taken.pop() {
            // SAFETY: the caller has taken it off its queue, and it has been popped from `taken`.
            self.push(unsafe { notify_one(node) });
        }
    }

    fn run_threads(&mut self) {
        let threads = self.few[..self.count].iter_mut().chain(&mut self.more).filter(|pending| !pending.calls_waker());
        threads.for_each(PendingWake::run);
    }

    /// Wakes the threads now, and keeps the wakers. An operation in pieces calls it after each piece: it may wait for a
    /// bucket, memory or a page between two pieces, and a thread that was notified must not wait with it.
    pub(crate) fn wake_threads(&mut self) {
        self.run_threads();
        self.more.retain(|pending| !pending.is_nothing());
        let mut kept = 0;
        for i in 0..self.count {
            if !self.few[i].is_nothing() {
                self.few.swap(kept, i);
                kept += 1;
            }
        }
        self.count = kept;
    }

    fn at(&mut self, index: usize) -> Option<&mut PendingWake> {
        if index < self.count { Some(&mut self.few[index]) } else { self.more.get_mut(index.checked_sub(BATCH)?) }
    }

    /// Adds an element, for which there is room. Members of a group are added to an element of that group if there is
    /// one at the group's hint, so that one system call wakes all of them.
    pub(crate) fn push(&mut self, mut pending: PendingWake) {
        if pending.is_nothing() {
            return;
        }
        if let Some(&mut members) = pending.members() {
            let there = self.at(members.index()).and_then(PendingWake::members);
            if there.is_some_and(|there| there.join(members)) {
                return core::mem::forget(pending); // the element that is there does its work
            }
            members.set_index(if self.count < BATCH { self.count } else { BATCH + self.more.len() });
        }
        match self.few.get_mut(self.count) {
            Some(slot) => {
                *slot = pending;
                self.count += 1;
            }
            None => self.more.push(pending),
        }
    }
}
