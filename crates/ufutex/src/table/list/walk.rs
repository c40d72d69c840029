//! Walks in pieces: a walk along a key's waiters that visits a bounded number of them, unlocks the bucket, locks it
//! again, and goes on.
//!
//! A *marker* in the ring keeps the walk's place: a node that the walk owns, right before the next waiter to visit. A
//! marker is linked like a waiter, so it keeps its place when waiters leave, are taken, or are moved to another bucket.
//! To go on, the walk takes the marker off and visits the waiter that stood behind it. So it visits each waiter
//! once, however many pieces it takes. If a waiter comes between two pieces, the marker stays where it is. The walk
//! passes over the new waiter if its priority puts it before the marker, and visits it otherwise.
//!
//! If the next waiter is the first of its key, no marker is needed: the walk goes on with the first waiter of the key.

use core::ptr::NonNull;

use super::{BucketQueue, Node, Pick, Taken, links, ring};

/// The bounds of one piece of a walk.
#[derive(Clone, Copy)]
pub struct Most {
    /// Takes at most this many waiters.
    pub taken: usize,
    /// Visits at most this many waiters, including those that it takes.
    pub visited: usize,
}

impl BucketQueue {
    /// Returns the waiter with which a walk goes on, or `None` if none is left. If `marker` is queued, this is the
    /// waiter behind it, and the marker is taken off. Otherwise it is the first waiter of the marker's key.
    ///
    /// # Safety
    /// `marker` is a marker of the caller's, and is queued in no other queue. The caller has locked this bucket as the
    /// bucket of the marker's key.
    pub unsafe fn resume(&mut self, marker: NonNull<Node>) -> Option<NonNull<Node>> {
        // SAFETY: if the marker is queued, it is queued here, and the lock that we hold guards its fields. Otherwise
        // its fields belong to its owner, the caller.
        unsafe {
            if marker.as_ref().bucket().is_null() {
                let (key, hash) = marker.as_ref().key();
                return self.first(key, hash);
            }
            let next = self.after(marker);
            self.remove(marker);
            next
        }
    }

    /// Inserts `marker` before `next`, where a walk has to go on, and returns `true`. If `next` is the first of its
    /// key, no marker is needed, and it returns `false`.
    ///
    /// # Safety
    /// As for [`insert`](Self::insert), with `marker` as the node. `next` is a waiter of its key, and is queued in this
    /// queue.
    pub unsafe fn pause(&mut self, marker: NonNull<Node>, next: NonNull<Node>, bucket: *mut ()) -> bool {
        // SAFETY: the nodes of this queue are valid, and we hold the lock; the marker belongs to the caller.
        unsafe {
            if (*links(next.as_ptr())).is_head {
                return false;
            }
            marker.as_ref().set_bucket(bucket);
            ring::insert_before(marker.as_ptr(), next.as_ptr());
        }
        true
    }

    /// Offers waiters to `pick`, from `first` on, and takes those that it picks, until it has taken or visited `most`.
    /// Returns the taken waiters and the waiter to go on with. That is `None` if none is left or if `pick` has stopped
    /// the walk.
    ///
    /// # Safety
    /// `first` is queued in this queue.
    pub unsafe fn take_from(
        &mut self,
        first: NonNull<Node>,
        most: Most,
        mut pick: impl FnMut(NonNull<Node>) -> Pick,
    ) -> (Taken, Option<NonNull<Node>>) {
        let (mut taken, mut next) = (Taken::default(), Some(first));
        let mut left = most.visited;
        while let Some(node) = next
            && taken.count < most.taken
            && left > 0
        {
            left -= 1;
            // SAFETY: `node` is queued here: it is `first`, or it stood behind a queued node.
            unsafe {
                next = self.after(node);
                match pick(node) {
                    Pick::Take => {
                        self.remove(node);
                        taken.push(node);
                    }
                    Pick::Skip => {}
                    Pick::Stop => {
                        taken.was_stopped = true;
                        next = None;
                    }
                }
            }
        }
        (taken, next)
    }
}
