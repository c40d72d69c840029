//! What stands in a bucket's queue: a node, a bitset, and how the waiter is told.

use alloc::vec::Vec;
use core::ptr::NonNull;

use crate::sync::UnsafeCell;
use crate::table::hash::Key;
use crate::table::list::{Node, Pick, Taken};
use crate::wait::{Rest, Signal, Told};

/// A waiter's entry, in the waiter's own memory. Ownership follows the node's: see `table::list` and `wait`.
#[repr(C)]
pub(crate) struct Entry {
    // First, so that a pointer to the node is one to the entry.
    pub(crate) node: Node,
    /// Queued: which wakes are meant for this waiter; none for one that waits for a lock, which is handed to it and not
    /// woken (see `pi`). Taken: whom the wake that took it goes to if this waiter does not
    /// want it, which is nobody if it was meant for all.
    bitset: UnsafeCell<u32>,
    pub(crate) signal: Signal,
}

impl Entry {
    pub(crate) fn new(key: Key, hash: u32, priority: u8, bitset: u32, told: Told) -> Self {
        Self { node: Node::new(key, hash, priority), bitset: UnsafeCell::new(bitset), signal: Signal::new(told) }
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
    /// Whoever has a waker.
    Task,
    /// Either, for a lock that is handed to it.
    ForLock,
}

/// The bitset of those that no wake is meant for.
pub(crate) const WAITS_FOR_LOCK: u32 = 0;

/// A wake of at least so many is one of all waiters: it is what futex(2)'s users say for all.
const ALL: usize = i32::MAX as usize;

/// For a walk of a queue: takes the waiters whose bitset meets `mask`, and stops at one that waits for a lock. A wake of
/// all waiters has nobody to go to but those: one that came later would take it for its own.
pub(crate) fn pick(mask: u32, count: usize) -> impl Fn(NonNull<Node>) -> Pick {
    let pass_on = if count >= ALL { 0 } else { mask };
    move |node| {
        let entry = node.cast::<Entry>();
        // SAFETY: every node of a queue is the first field of an entry, whose fields are guarded by the lock that the
        // walk holds.
        unsafe { entry.as_ref() }.bitset.with_mut(|b| {
            // SAFETY: as above.
            let b = unsafe { &mut *b };
            if *b & mask == 0 {
                return if *b == WAITS_FOR_LOCK { Pick::Stop } else { Pick::Skip };
            }
            *b = pass_on;
            Pick::Take
        })
    }
}

/// How many waiters a wake takes without memory of its own.
pub(crate) const BATCH: usize = 16;

/// Room for what is left to do for the waiters that a wake takes. All of them are taken at once, so that a wake is one
/// step however many it wakes; only where the memory for that cannot be had are they taken in batches.
#[derive(Default)]
pub(crate) struct Room {
    more: Vec<Rest>,
    is_refused: bool,
}

impl Room {
    /// Whether so many may be taken; or else no memory is to be had for them. If not, ask for it with no lock held.
    pub fn holds(&self, count: usize) -> bool {
        count <= self.limit() || self.is_refused
    }

    /// Asks for memory for so many.
    #[cold]
    pub fn make(&mut self, count: usize) {
        self.is_refused = self.more.try_reserve_exact(count - BATCH).is_err();
    }

    /// How many may be taken.
    pub fn limit(&self) -> usize {
        BATCH + self.more.capacity()
    }
}

/// Tells waiters that have been taken off the queue, for which there is `room`. Who was to be woken otherwise than by the
/// entry itself is woken when the result is dropped.
///
/// Every one is told before the first waker runs. What a waker does is not ours to say: it may drop another of these
/// waiters, or poll it, or block on a thread that does, and none of them must then wait for us.
pub(crate) fn tell(mut taken: Taken, room: Room) -> Rests {
    debug_assert!(taken.len() <= room.limit());
    let mut rests = Rests::none();
    rests.more = room.more;
    while let Some(node) = taken.pop() {
        // SAFETY: taken off its queue by the caller, and popped.
        rests.push(unsafe { tell_one(node) });
    }
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

/// What is left to do for waiters that have been told. Doing it is what dropping it does, so that none is forgotten when
/// one of the wakers panics.
#[must_use]
pub(crate) struct Rests {
    few: [Rest; BATCH],
    count: usize,
    more: Vec<Rest>,
}

impl Rests {
    pub(crate) fn none() -> Self {
        Self { few: [const { Rest::Nothing }; BATCH], count: 0, more: Vec::new() }
    }

    /// One more, for which there is room.
    pub(crate) fn push(&mut self, rest: Rest) {
        if matches!(rest, Rest::Nothing) {
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

    fn finish(&mut self) {
        for i in 0..self.count {
            self.finish_one(i);
        }
        while let Some(rest) = self.more.pop() {
            self.go_on_after(rest);
        }
    }

    fn finish_one(&mut self, i: usize) {
        let rest = core::mem::replace(&mut self.few[i], Rest::Nothing);
        self.go_on_after(rest);
    }

    /// Does one, and all others if that panics.
    fn go_on_after(&mut self, rest: Rest) {
        struct Others<'a>(&'a mut Rests);
        impl Drop for Others<'_> {
            fn drop(&mut self) {
                self.0.finish();
            }
        }
        let others = Others(self);
        rest.finish();
        core::mem::forget(others);
    }
}

impl Drop for Rests {
    fn drop(&mut self) {
        self.finish();
    }
}
