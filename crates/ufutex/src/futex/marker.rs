//! Markers: where an operation in pieces goes on after its bucket was unlocked (see `table::list`).

use core::pin::Pin;
use core::ptr::NonNull;

use super::domain::Domain;
use super::entry::Entry;
use super::place::Place;
use crate::table::bucket::Guard;
use crate::table::list::Node;

/// A place among the waiters of a key, on the operation's stack. If it is dropped while queued, as by a panic of a
/// callback, it leaves its queue, also if a resize has moved the queue.
pub(super) struct Marker<'d> {
    domain: &'d Domain,
    /// An entry that no wake may take. Other threads reach it through the queue.
    entry: Entry,
}

impl<'d> Marker<'d> {
    /// A marker that is not queued: an operation at `place` begins with the first waiter.
    pub fn new(domain: &'d Domain, place: &Place) -> Self {
        Self { domain, entry: Entry::marker(domain.key(place), place.hash) }
    }

    fn node(&self) -> NonNull<Node> {
        NonNull::from(&self.entry).cast()
    }

    /// Takes the marker off the queue, and returns the waiter with which the operation goes on: the one behind the
    /// marker, or the key's first waiter if the marker was not queued. `None` if none is left. `bucket` has been locked
    /// as the key's. [`keep`](Self::keep) puts the marker back.
    pub fn next(self: Pin<&Self>, bucket: &mut Guard<'_>) -> Option<NonNull<Node>> {
        // SAFETY: the marker is ours. If it is queued, it is in the bucket that is locked as its key's, like all nodes
        // of the key.
        unsafe { bucket.resume(self.node()) }
    }

    /// Notes that the operation goes on with `next`, a waiter of the key that is queued in `bucket`: queues the marker
    /// before it, unless `next` is the key's first waiter.
    pub fn keep(self: Pin<&Self>, bucket: &mut Guard<'_>, next: NonNull<Node>) {
        // SAFETY: not queued: taken off by `next`, or never queued. It is pinned, and leaves the queue in its drop.
        unsafe { bucket.pause(self.node(), next) };
    }
}

impl Drop for Marker<'_> {
    fn drop(&mut self) {
        let node = self.node();
        // SAFETY: the guard proves that the node is queued in its bucket.
        self.domain.with_queued(&self.entry, |guard| unsafe { guard.remove(node) });
    }
}
