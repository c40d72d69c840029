//! The queue of a bucket: a tree of keys (`tree`), and for each key a ring of waiters in wake order (`ring`).
//!
//! Only the first waiter of each key, its *head*, is in the tree, so a search passes few others. The last waiter of a ring is
//! its head's predecessor. `node` says which thread a node belongs to.
//!
//! An operation in pieces looks at a bounded number of a key's waiters, unlocks the bucket, locks it again, and goes on at its
//! *marker*: a node of its own in the ring, right before the next waiter to look at. A marker is linked like a waiter, may be a
//! head, and is moved like a waiter; operations that look for waiters pass over it. So each waiter is looked at once. A waiter
//! that comes between two pieces is looked at if its priority puts it behind the marker.
//!
//! # Safety
//! Only a [`Guard`] reaches its bucket's queue, so every function here runs under the bucket's lock, which keeps the queued
//! nodes valid and guards their fields. SAFETY comments call this "the lock". Unless a function says otherwise, a node that
//! it is given is queued in the guard's bucket.

use core::ops::RangeInclusive;
use core::ptr::{self, NonNull};

use super::bucket::Guard;
use super::hash::TableKey;
pub use super::node::Node;
use super::node::links;
use super::ring;
use super::tree::{self, HeadSlot, Position};

/// A bucket's queue. All zeroes mean an empty queue.
#[repr(C)]
pub struct BucketQueue {
    root: *mut Node,
    keys: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Pick {
    Take,
    Skip,
    /// Leave this waiter, and look no further.
    Stop,
}

#[derive(Clone, Copy)]
pub struct Most {
    pub taken: usize,
    /// Includes those that are taken.
    pub visited: usize,
}

impl BucketQueue {
    /// As [`Guard::insert`], for a queue that is empty, or has other keys or waiters of another priority.
    #[inline(never)]
    unsafe fn insert_among(queue: *mut Self, node: *mut Node) -> Option<u32> {
        // SAFETY: the lock; `node` belongs to the caller.
        unsafe {
            let Some(slot) = tree::find_or_insert(&raw mut (*queue).root, node) else {
                ring::link(node, node); // a ring of its own
                (*queue).keys += 1;
                return Some((*queue).keys);
            };
            let head = *slot;
            if (*links(node)).priority < (*links(head)).priority {
                tree::replace(slot, node);
                ring::push_front(head, node);
            } else {
                ring::insert(head, node);
            }
        }
        None
    }

    /// The slot that refers to `node`, if `node` is a head. Otherwise the root.
    #[inline]
    unsafe fn slot_of(queue: *mut Self, node: *mut Node) -> HeadSlot {
        // SAFETY: the lock.
        unsafe {
            let root = &raw mut (*queue).root;
            if !(*links(node)).is_head {
                return root;
            }
            let Position { key, hash } = Position::of(node);
            tree::find(root, key, hash)
        }
    }

    /// Takes `node` out of the tree and the ring. If it is a head, `slot` refers to it.
    #[inline(never)]
    unsafe fn unlink(queue: *mut Self, slot: HeadSlot, node: *mut Node) {
        // SAFETY: the lock.
        unsafe {
            let next = (*links(node)).next;
            if next == node {
                tree::remove(slot);
                (*queue).keys -= 1;
                return;
            }
            ring::remove(node);
            if (*links(node)).is_head {
                tree::replace(slot, next);
            }
        }
    }
}

impl Guard<'_> {
    /// Queues `node` behind the waiters of its key that have its priority or a better one. Returns the number of keys in the
    /// queue if the key is new there.
    ///
    /// # Safety
    /// `node` is valid and unqueued (or unlinked by [`take_to`](Self::take_to)), and its fields belong to the caller.
    /// It stays valid and in place until it is unqueued again. It may be used from any thread.
    pub unsafe fn insert(&mut self, node: NonNull<Node>) -> Option<u32> {
        self.count_one_more();
        let (queue, node) = (self.queue(), node.as_ptr());
        // SAFETY: the lock; `node` belongs to the caller.
        unsafe {
            (*node).set_bucket(self.bucket().address());
            let head = (*queue).root;
            if !head.is_null() {
                let (first, new) = (&*links(head), &*links(node));
                // On a machine with several nodes a key may have several hashes, which are told apart wherever they meet.
                if first.key == new.key && first.hash == new.hash && ring::is_of_one_level(head, node) {
                    ring::link_before(node, head);
                    return None;
                }
            }
            BucketQueue::insert_among(queue, node)
        }
    }

    pub unsafe fn remove(&mut self, node: NonNull<Node>) {
        self.count_less(1);
        let queue = self.queue();
        // SAFETY: the lock guards the node until its bucket is null.
        unsafe {
            BucketQueue::unlink(queue, BucketQueue::slot_of(queue, node.as_ptr()), node.as_ptr());
            node.as_ref().set_bucket(ptr::null_mut());
        }
    }

    /// Takes `node` off the queue and leaves it looking queued, so that its owner waits for the lock. Movers and requeues
    /// insert it elsewhere at once, as a waiter of `key`.
    ///
    /// # Safety
    /// The caller also holds the lock of the queue into which the node goes next, until it is there.
    pub unsafe fn take_to(&mut self, node: NonNull<Node>, key: TableKey, hash: u32) {
        self.count_less(1);
        let queue = self.queue();
        // SAFETY: the lock.
        unsafe {
            BucketQueue::unlink(queue, BucketQueue::slot_of(queue, node.as_ptr()), node.as_ptr());
            let l = links(node.as_ptr());
            ((*l).key, (*l).hash) = (key, hash);
        }
    }

    /// Moves `node` to the queue of `to`, under its own key.
    pub unsafe fn pass(&mut self, node: NonNull<Node>, to: &mut Guard<'_>) {
        // SAFETY: the node is queued here, and inserted at once.
        unsafe {
            let (key, hash) = node.as_ref().key();
            self.take_to(node, key, hash);
            to.insert(node);
        }
    }

    /// The number of waiters of `key`, counted up to `limit`.
    pub fn count(&self, key: TableKey, hash: u32, limit: usize) -> usize {
        // SAFETY: the lock.
        core::iter::successors(self.first(key, hash), |&node| unsafe { self.after(node) }).take(limit).count()
    }

    pub fn first(&self, key: TableKey, hash: u32) -> Option<NonNull<Node>> {
        let head = self.head(key, hash)?;
        // SAFETY: the head is queued here.
        unsafe { self.from(head) }
    }

    /// As [`first`](Self::first), but may return a marker: for queues that have none, and for callers that accept one.
    pub fn head(&self, key: TableKey, hash: u32) -> Option<NonNull<Node>> {
        // SAFETY: the lock.
        NonNull::new(unsafe { *tree::find(&raw mut (*self.queue()).root, key, hash) })
    }

    /// `node`, or the waiter behind it if `node` is a marker.
    #[inline(always)]
    unsafe fn from(&self, node: NonNull<Node>) -> Option<NonNull<Node>> {
        // SAFETY: the lock.
        unsafe { if is_passed_over(node.as_ptr()) { self.after(node) } else { Some(node) } }
    }

    pub unsafe fn after(&self, node: NonNull<Node>) -> Option<NonNull<Node>> {
        // SAFETY: the lock.
        unsafe {
            let mut next = (*links(node.as_ptr())).next;
            while !(*links(next)).is_head {
                if !is_passed_over(next) {
                    return Some(NonNull::new_unchecked(next));
                }
                next = (*links(next)).next;
            }
        }
        None
    }

    /// The first waiter of the key behind those that have the priority of `node`. It passes at most 101 other nodes.
    pub unsafe fn after_level(&self, node: NonNull<Node>) -> Option<NonNull<Node>> {
        // SAFETY: the lock.
        unsafe {
            let Position { key, hash } = Position::of(node.as_ptr());
            let head = self.head(key, hash)?;
            self.from(NonNull::new(ring::after_level(head.as_ptr(), node.as_ptr()))?)
        }
    }

    /// Offers the waiters of `key` to `pick` in wake order. Takes up to `limit` of those that it picks, which then belong to
    /// the caller.
    pub fn take(&mut self, key: TableKey, hash: u32, limit: usize, pick: impl FnMut(NonNull<Node>) -> Pick) -> Taken {
        let most = Most { taken: limit, visited: usize::MAX };
        // SAFETY: the lock. The slot is that of the key's head.
        unsafe {
            let slot = tree::find(&raw mut (*self.queue()).root, key, hash);
            let Some(head) = NonNull::new(*slot) else { return Taken::default() };
            self.walk(slot, self.from(head), most, pick).0
        }
    }

    /// Offers waiters to `pick`, from `first` on, and takes those that it picks, until it has taken or visited `most`. Returns
    /// the taken waiters and the waiter to go on with. That is `None` if none is left or if `pick` has stopped the walk.
    pub unsafe fn take_from(
        &mut self,
        first: NonNull<Node>,
        most: Most,
        pick: impl FnMut(NonNull<Node>) -> Pick,
    ) -> (Taken, Option<NonNull<Node>>) {
        // SAFETY: the caller guarantees it.
        unsafe { self.walk(BucketQueue::slot_of(self.queue(), first.as_ptr()), Some(first), most, pick) }
    }

    /// As [`take_from`](Self::take_from). `slot` refers to the head of the key if a waiter to be taken may be a head.
    #[inline(always)]
    unsafe fn walk(
        &mut self,
        slot: HeadSlot,
        mut next: Option<NonNull<Node>>,
        most: Most,
        mut pick: impl FnMut(NonNull<Node>) -> Pick,
    ) -> (Taken, Option<NonNull<Node>>) {
        let mut taken = Taken::default();
        let mut left = most.visited;
        while let Some(node) = next
            && taken.count < most.taken
            && left > 0
        {
            left -= 1;
            // SAFETY: `node` is queued here: it is the first, or it stood behind a queued node.
            unsafe {
                next = self.after(node);
                match pick(node) {
                    Pick::Take => {
                        BucketQueue::unlink(self.queue(), slot, node.as_ptr());
                        node.as_ref().set_bucket(ptr::null_mut());
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
        self.count_less(taken.count as u32);
        (taken, next)
    }

    /// The waiter with which a walk goes on. If `marker` is queued, this is the waiter behind it, and the marker is taken off.
    /// Otherwise it is the first waiter of the marker's key.
    ///
    /// # Safety
    /// `marker` belongs to the caller, and is queued in no other bucket. This bucket is that of the marker's key.
    pub unsafe fn resume(&mut self, marker: NonNull<Node>) -> Option<NonNull<Node>> {
        // SAFETY: the lock, or, if the marker is not queued, the caller, which owns it.
        unsafe {
            let place = marker.as_ref().bucket();
            debug_assert!(place.is_null() || place == self.bucket().address(), "a marker stands in another bucket");
            if place.is_null() {
                let (key, hash) = marker.as_ref().key();
                return self.first(key, hash);
            }
            let next = self.after(marker);
            self.remove(marker);
            next
        }
    }

    /// Inserts `marker` before `next`, where a walk has to go on. If `next` is the first of its key, no marker is needed.
    ///
    /// # Safety
    /// As for [`insert`](Self::insert), with `marker` as the node. `next` is a waiter of its key.
    pub unsafe fn pause(&mut self, marker: NonNull<Node>, next: NonNull<Node>) {
        // SAFETY: the lock; the marker belongs to the caller.
        unsafe {
            if (*links(next.as_ptr())).is_head {
                return;
            }
            self.count_one_more();
            marker.as_ref().set_bucket(self.bucket().address());
            // With the priority of `next` it is not the last of its level, so the list of levels does not change.
            (*links(marker.as_ptr())).priority = (*links(next.as_ptr())).priority;
            ring::link_before(marker.as_ptr(), next.as_ptr());
        }
    }

    /// Calls `visit` with each key, its hash, and its waiters in wake order.
    pub fn for_each_key(&self, mut visit: impl FnMut(TableKey, u32, &mut dyn Iterator<Item = NonNull<Node>>)) {
        let mut last = None;
        while let Some(head) = self.first_with(|at| last.is_none_or(|last: Position| last.is_before(at))) {
            // SAFETY: the lock.
            let position = unsafe { Position::of(head.as_ptr()) };
            let first = self.first(position.key, position.hash);
            if first.is_some() {
                // SAFETY: as above.
                let mut waiters = core::iter::successors(first, |&node| unsafe { self.after(node) });
                visit(position.key, position.hash, &mut waiters);
            }
            last = Some(position);
        }
    }

    /// The first waiter or marker, in wake order, of the first key of `space` with a hash in `hashes`.
    pub fn first_in(&self, space: u64, hashes: RangeInclusive<u32>) -> Option<NonNull<Node>> {
        let start = Position { key: TableKey { address: 0, space }, hash: *hashes.start() };
        let head = self.first_with(|at| !at.is_before(start))?;
        // SAFETY: the lock.
        let Position { key, hash } = unsafe { Position::of(head.as_ptr()) };
        (key.space == space && hash <= *hashes.end()).then_some(head)
    }

    /// The first head that `is_wanted`, as all behind it are.
    fn first_with(&self, is_wanted: impl Fn(Position) -> bool) -> Option<NonNull<Node>> {
        // SAFETY: the lock.
        NonNull::new(unsafe { tree::first_with((*self.queue()).root, is_wanted) })
    }

    /// The first waiter or marker of a key, whichever is found at once, and the key's hash.
    pub fn any_head(&self) -> Option<(NonNull<Node>, u32)> {
        // SAFETY: the lock.
        unsafe {
            let head = NonNull::new((*self.queue()).root)?;
            Some((head, head.as_ref().key().1))
        }
    }
}

#[inline(always)]
unsafe fn is_passed_over(node: *mut Node) -> bool {
    // SAFETY: the caller guarantees it.
    unsafe { (*links(node)).is_marker }
}

/// Unqueued nodes, in wake order. They belong to the holder of the list.
#[derive(Default)]
pub struct Taken {
    first: Option<NonNull<Node>>,
    last: Option<NonNull<Node>>,
    count: usize,
    /// Whether a [`Pick::Stop`] ended the walk.
    pub was_stopped: bool,
}

impl Taken {
    pub fn len(&self) -> usize {
        self.count
    }

    fn push(&mut self, node: NonNull<Node>) {
        // SAFETY: the nodes of this list belong to its holder.
        unsafe {
            (*links(node.as_ptr())).next = ptr::null_mut();
            match self.last {
                Some(last) => (*links(last.as_ptr())).next = node.as_ptr(),
                None => self.first = Some(node),
            }
        }
        self.last = Some(node);
        self.count += 1;
    }

    /// Takes the first node out of the list, which does not read it afterwards: its waiter may be signalled.
    pub fn pop(&mut self) -> Option<NonNull<Node>> {
        let node = self.first?;
        // SAFETY: the nodes of this list belong to its holder.
        self.first = NonNull::new(unsafe { (*links(node.as_ptr())).next });
        self.count -= 1;
        Some(node)
    }
}

#[cfg(test)]
mod tests;
