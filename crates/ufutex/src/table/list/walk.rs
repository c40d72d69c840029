//! Walks in pieces: a walk along a key's waiters that looks at a bounded number of them, unlocks the bucket, locks it
//! again, and goes on.
//!
//! The walk's place is kept by a *marker* in the ring: a node that the walk owns, right before the next waiter to look
//! at. A marker is linked like a waiter, so it keeps its place when waiters leave, are taken, or are moved to another
//! bucket. To go on, the walk takes the marker off and looks at what stood behind it. So it looks at each waiter once,
//! however many pieces it takes. A waiter that comes between two pieces does not move the marker. If its priority puts
//! it before the marker, the walk does not look at it; otherwise the walk does.
//!
//! If the next waiter is the first of its key, no marker is needed: the walk goes on with the first waiter of the key.

use core::ptr::NonNull;

use super::{Node, Pick, Queue, Taken, links, ring};

impl Queue {
    /// Where a walk goes on, if there is a waiter left: behind `marker`, which is taken off, or with the first waiter
    /// of the marker's key if `marker` is not queued.
    ///
    /// # Safety
    /// `marker` is a marker of the caller's, and is queued in no other queue. The caller has locked this bucket as the
    /// bucket of the marker's key.
    pub unsafe fn resume(&mut self, marker: NonNull<Node>) -> Option<NonNull<Node>> {
        // SAFETY: the marker's fields are guarded by the lock that we hold if it is queued, which is here, and belong
        // to its owner otherwise.
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

    /// Inserts `marker` before `next`, where a walk has to go on, unless `next` is the first of its key. Answers
    /// whether it did.
    ///
    /// # Safety
    /// As for [`insert`](Self::insert), `marker` being the node. `next` is a waiter of its key, and queued in this queue.
    pub unsafe fn pause(&mut self, marker: NonNull<Node>, next: NonNull<Node>, bucket: *mut ()) -> bool {
        // SAFETY: the nodes of this queue are valid, and we hold the lock; the marker is the caller's.
        unsafe {
            if (*links(next.as_ptr())).is_head {
                return false;
            }
            marker.as_ref().set_bucket(bucket);
            ring::insert_before(marker.as_ptr(), next.as_ptr());
        }
        true
    }

    /// Offers waiters to `pick`, from `first` on, and takes up to `limit` of those that it picks, but looks at no more
    /// than `most`. Answers the taken waiters and the waiter to go on with, which is `None` if none is left or if
    /// `pick` has stopped the walk.
    ///
    /// # Safety
    /// `first` is queued in this queue.
    pub unsafe fn take_from(
        &mut self,
        first: NonNull<Node>,
        limit: usize,
        most: usize,
        mut pick: impl FnMut(NonNull<Node>) -> Pick,
    ) -> (Taken, Option<NonNull<Node>>) {
        let (mut taken, mut next) = (Taken::default(), Some(first));
        let mut left = most;
        while let Some(node) = next
            && taken.count < limit
            && left > 0
        {
            left -= 1;
            // SAFETY: `node` is queued here: it is `first`, or stood behind a queued node.
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
