//! The queue entry of a task that waits for a lock, or waits to be requeued to one.

use core::ptr::NonNull;

use super::{LockId, TaskId};
use crate::futex::entry::Entry;
use crate::sync::{AtomicU32, Ordering, UnsafeCell};
use crate::table::hash::TableKey;
use crate::table::list::Node;

/// An [`Entry`] that no plain wake takes, and what its task waits for.
#[repr(C)]
pub(crate) struct PiEntry {
    // First, so that a pointer to the node is also a pointer to this struct.
    pub entry: Entry,
    /// The number of the PID namespace of the task that waits. Its graph has the task, and the lock that it waits for.
    pub namespace: u64,
    /// Guarded by the lock of the bucket where it is queued.
    purpose: UnsafeCell<Purpose>,
    outcome: AtomicU32,
}

/// The purpose of an entry's wait.
#[derive(Clone, Copy)]
pub(crate) enum Purpose {
    /// To be requeued to a lock.
    Requeue {
        /// The key of the lock.
        to: TableKey,
        /// The task that is to get the lock.
        task: TaskId,
    },
    /// For this lock. The entry is queued by the key of the lock's word.
    Lock(LockId),
}

/// The owner of the lock has died and this waiter has inherited the lock. It is still queued, and has to write its TID
/// into the word.
const HEIR: u32 = 1;

impl PiEntry {
    pub fn new(entry: Entry, namespace: u64, purpose: Purpose) -> Self {
        Self { entry, namespace, purpose: UnsafeCell::new(purpose), outcome: AtomicU32::new(0) }
    }

    /// # Safety
    /// The caller holds the lock of the bucket where the entry is queued.
    pub unsafe fn purpose(&self) -> Purpose {
        // SAFETY: the caller guarantees it.
        self.purpose.with(|p| unsafe { *p })
    }

    /// # Safety
    /// As for [`purpose`](Self::purpose).
    pub unsafe fn set_purpose(&self, purpose: Purpose) {
        // SAFETY: the caller guarantees it.
        self.purpose.with_mut(|p| unsafe { *p = purpose });
    }

    /// Whether the entry's task has to write its TID into the word.
    pub fn is_heir(&self) -> bool {
        self.outcome.load(Ordering::Relaxed) == HEIR // [O]: the flag guards no other data
    }

    /// Marks the waiter as heir. Call only with the graph locked.
    pub fn make_heir(&self) {
        self.outcome.store(HEIR, Ordering::Relaxed); // [O]: before the waiter is notified
    }
}

/// A queued entry, by its address.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct EntryRef(pub NonNull<PiEntry>);

// SAFETY: only an address. Code that dereferences it guarantees its validity.
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
    /// The entry is queued, or in a graph, and stays so as long as the result is used: the caller holds the lock of its
    /// bucket or of the graph.
    pub unsafe fn get<'a>(self) -> &'a PiEntry {
        // SAFETY: the caller guarantees it.
        unsafe { self.0.as_ref() }
    }
}
