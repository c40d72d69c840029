//! What stands in a queue for one who waits for a lock.

use core::ptr::NonNull;

use super::graph::{LockId, TaskId};
use super::region::HomeRef;
use crate::futex::entry::{Entry, WAITS_FOR_LOCK};
use crate::sync::{AtomicU32, Ordering, UnsafeCell};
use crate::table::hash::Key;
use crate::table::list::Node;
use crate::wait::Told;

/// An [`Entry`] that no wake is meant for, and what it waits for.
#[repr(C)]
pub(crate) struct PiEntry {
    // First, so that a pointer to the node is one to this.
    pub entry: Entry,
    /// The home of the task that waits: what it waits for is in the same region.
    pub home: HomeRef,
    /// Guarded by the lock of the bucket where it is queued.
    purpose: UnsafeCell<Purpose>,
    outcome: AtomicU32,
}

/// What an entry waits for.
#[derive(Clone, Copy)]
pub(crate) enum Purpose {
    /// To be requeued.
    Requeue {
        /// The key of the lock.
        to: Key,
        /// Who is to have it.
        task: TaskId<EntryRef>,
    },
    /// For this lock, whose word's key it is queued by.
    Lock(LockId<EntryRef>),
}

/// It is the holder of a lock whose owner has died, still queued, and has to put the word right.
const HEIR: u32 = 1;

impl PiEntry {
    pub fn new(key: Key, hash: u32, priority: u8, told: Told, home: HomeRef, purpose: Purpose) -> Self {
        Self {
            entry: Entry::new(key, hash, priority, WAITS_FOR_LOCK, told),
            home,
            purpose: UnsafeCell::new(purpose),
            outcome: AtomicU32::new(0),
        }
    }

    /// # Safety
    /// The caller holds the lock of the bucket where it is queued.
    pub unsafe fn purpose(&self) -> Purpose {
        // SAFETY: says the caller.
        self.purpose.with(|p| unsafe { *p })
    }

    /// # Safety
    /// As for [`purpose`](Self::purpose).
    pub unsafe fn set_purpose(&self, purpose: Purpose) {
        // SAFETY: says the caller.
        self.purpose.with_mut(|p| unsafe { *p = purpose });
    }

    /// Whether its owner has to put the word right.
    pub fn is_heir(&self) -> bool {
        self.outcome.load(Ordering::Relaxed) == HEIR // [O]: it proves nothing but itself
    }

    /// Only with the region locked.
    pub fn make_heir(&self) {
        self.outcome.store(HEIR, Ordering::Relaxed); // [O]: before the waiter is told
    }
}

/// A queued entry, by its address.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct EntryRef(pub NonNull<PiEntry>);

// SAFETY: an address; whoever follows it answers for that.
unsafe impl Send for EntryRef {}

impl EntryRef {
    pub fn node(self) -> NonNull<Node> {
        self.0.cast()
    }

    /// The entry of a queued node, if it waits for a lock.
    ///
    /// # Safety
    /// The node is queued, and the caller holds the lock of its bucket.
    pub unsafe fn of(node: NonNull<Node>) -> Option<Self> {
        // SAFETY: every node of a queue is the first field of an entry.
        let is_plain = unsafe { node.cast::<Entry>().as_ref().is_plain() };
        (!is_plain).then(|| Self(node.cast()))
    }

    /// # Safety
    /// It is queued, or in a graph, and stays so as long as the result is used: the caller holds the lock of its bucket
    /// or of its region.
    pub unsafe fn get<'a>(self) -> &'a PiEntry {
        // SAFETY: says the caller.
        unsafe { self.0.as_ref() }
    }
}
