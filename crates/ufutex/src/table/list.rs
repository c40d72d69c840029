//! The queue of a bucket: a tree of keys (`tree`), and for each key a ring of waiters in wake order (`ring`).
//!
//! Only a [`Guard`](super::bucket::Guard) hands out a [`BucketQueue`], so every method here runs under the bucket's lock.
//!
//! The first waiter of each key is that key's *head*. Only heads are in the tree, so a search for a key passes only a
//! few other heads, however many keys and waiters there are. The last waiter of a ring is its head's predecessor.
//! `node` says which thread a node belongs to.
//!
//! Markers stand in rings like waiters: moves move them, and a marker can be a head. Operations that look for waiters
//! pass over markers.

use core::ops::RangeInclusive;
use core::ptr::{self, NonNull};

use super::hash::TableKey;
pub use super::node::Node;
use super::node::links;
use super::ring;
use super::tree::{self, HeadSlot, Position, Start};

/// A bucket's queue. All zeroes mean an empty queue.
#[repr(C)]
pub struct BucketQueue {
    /// The tree of heads.
    root: *mut Node,
    /// The number of heads in the tree.
    keys: u32,
}

/// Whether a waiter is taken off the queue.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Pick {
    Take,
    Skip,
    /// Leave this waiter, and look no further.
    Stop,
}

impl BucketQueue {
    pub const fn new() -> Self {
        Self { root: ptr::null_mut(), keys: 0 }
    }

    /// Queues `node` behind the waiters of its key that have its priority or a better one. If the key is new in the
    /// queue, returns the number of keys that the queue has now.
    ///
    /// # Safety
    /// `node` is valid and unqueued (or unlinked by [`take_to`](Self::take_to)), and its fields belong to the caller.
    /// It stays valid and in place until it is unqueued again. `bucket` is the bucket of this queue.
    pub unsafe fn insert(&mut self, node: NonNull<Node>, bucket: *mut ()) -> Option<u32> {
        let node = node.as_ptr();
        // SAFETY: the nodes of this queue are valid, and we hold the lock; `node` belongs to the caller.
        unsafe {
            (*node).set_bucket(bucket);
            let head = self.root;
            if head.is_null() {
                ring::of_one(node);
                tree::insert_alone(&raw mut self.root, node);
                self.keys = 1;
                return Some(1);
            }
            let (first, new) = (&*links(head), &*links(node));
            // On a machine with several nodes a key may have several hashes, which are told apart wherever they meet.
            if first.key == new.key && first.hash == new.hash && ring::is_of_one_level(head, node) {
                ring::push_back(head, node);
                return None;
            }
            self.insert_among(node)
        }
    }

    /// As [`insert`](Self::insert), for a queue that has other keys or waiters of another priority.
    ///
    /// # Safety
    /// As for `insert`.
    #[inline(never)]
    unsafe fn insert_among(&mut self, node: *mut Node) -> Option<u32> {
        // SAFETY: as in `insert`.
        unsafe {
            let Some(slot) = tree::find_or_insert(&raw mut self.root, node) else {
                ring::of_one(node);
                self.keys += 1;
                return Some(self.keys);
            };
            let head = *slot;
            if ring::goes_first(head, node) {
                tree::replace(slot, node);
                ring::push_front(head, node);
            } else {
                ring::insert(head, node);
            }
        }
        None
    }

    /// Takes `node` off the queue.
    ///
    /// # Safety
    /// `node` is queued in this queue.
    pub unsafe fn remove(&mut self, node: NonNull<Node>) {
        let (queue, node) = (ptr::from_mut(self), node.as_ptr());
        // SAFETY: the nodes of this queue are valid, and we hold the lock. After the node has been unlinked, the lock
        // guards it until its bucket is null.
        unsafe {
            if !(*links(node)).is_head && ring::is_within_level(node) {
                ring::unlink(node);
            } else if Self::is_all(queue, node) {
                Self::clear(queue, node);
            } else {
                return Self::unlink_and_release(queue, Self::slot_of(queue, node), node);
            }
            (*node).set_bucket(ptr::null_mut());
        }
    }

    // The functions from here on take the queue as a pointer, `queue`. Their callers hold a slot, which may be the
    // queue's root, and a reference to the queue would claim exclusive access to the root.

    /// # Safety
    /// As for [`unlink`](Self::unlink).
    #[inline(never)]
    unsafe fn unlink_and_release(queue: *mut Self, slot: HeadSlot, node: *mut Node) {
        // SAFETY: as in `remove`.
        unsafe {
            Self::unlink(queue, slot, node);
            (*node).set_bucket(ptr::null_mut());
        }
    }

    /// Whether `node` is the only node in the queue.
    ///
    /// # Safety
    /// `node` is queued in this queue.
    #[inline(always)]
    unsafe fn is_all(queue: *mut Self, node: *mut Node) -> bool {
        // SAFETY: the caller guarantees it, and we hold the lock.
        unsafe { (*queue).keys == 1 && (*links(node)).next == node }
    }

    /// Takes the only node off the queue.
    ///
    /// # Safety
    /// `node` is the only node: see [`is_all`](Self::is_all).
    #[inline(always)]
    unsafe fn clear(queue: *mut Self, node: *mut Node) {
        // SAFETY: the caller guarantees it, and we hold the lock.
        unsafe {
            (*links(node)).is_head = false;
            *queue = Self::new();
        }
    }

    /// Takes `node` off the queue and leaves it looking queued, so that its owner waits for the lock. This is for a
    /// requeue, which inserts the node elsewhere at once, as a waiter of `key`.
    ///
    /// # Safety
    /// `node` is queued in this queue. The caller also holds the lock of the queue into which the node goes next, until
    /// it is there.
    pub unsafe fn take_to(&mut self, node: NonNull<Node>, key: TableKey, hash: u32) {
        // SAFETY: the caller guarantees it; the lock that we hold guards the fields.
        unsafe {
            let queue = ptr::from_mut(self);
            Self::unlink(queue, Self::slot_of(queue, node.as_ptr()), node.as_ptr());
            let l = links(node.as_ptr());
            ((*l).key, (*l).hash) = (key, hash);
        }
    }

    /// The slot that refers to `node`, if `node` is a head. Otherwise the root.
    ///
    /// # Safety
    /// `node` is queued in this queue.
    #[inline(never)]
    unsafe fn slot_of(queue: *mut Self, node: *mut Node) -> HeadSlot {
        // SAFETY: the nodes of this queue are valid, and we hold the lock.
        unsafe {
            let root = &raw mut (*queue).root;
            if *root == node || !(*links(node)).is_head {
                return root;
            }
            let Position { key, hash } = Position::of(node);
            tree::find(root, key, hash)
        }
    }

    /// # Safety
    /// `node` is queued in this queue. If it is a head, `slot` refers to it.
    unsafe fn unlink(queue: *mut Self, slot: HeadSlot, node: *mut Node) {
        // SAFETY: the nodes of this queue are valid, and we hold the lock.
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

    /// As [`remove`](Self::remove), for a caller that has the slot.
    ///
    /// # Safety
    /// As for [`unlink`](Self::unlink).
    #[inline(never)]
    unsafe fn remove_from(queue: *mut Self, slot: HeadSlot, node: *mut Node) {
        // SAFETY: as in `remove`.
        unsafe {
            let next = (*links(node)).next;
            if Self::is_all(queue, node) {
                Self::clear(queue, node);
            } else if next != node && ring::is_within_level(node) {
                ring::unlink(node);
                if (*links(node)).is_head {
                    tree::replace(slot, next);
                }
            } else {
                return Self::unlink_and_release(queue, slot, node);
            }
            (*node).set_bucket(ptr::null_mut());
        }
    }

    /// The number of waiters of `key`, counted up to `limit`; `hash` is the key's hash. Markers count as well: the
    /// caller needs an upper bound for the room that the waiters take.
    pub fn count(&mut self, key: TableKey, hash: u32, limit: usize) -> usize {
        let Some(head) = self.head(key, hash) else { return 0 };
        let (mut node, mut count) = (head.as_ptr(), 1);
        while count < limit {
            // SAFETY: the nodes of this queue are valid, and we hold the lock.
            node = unsafe { (*links(node)).next };
            if node == head.as_ptr() {
                break;
            }
            count += 1;
        }
        count
    }

    /// The first waiter of `key` in wake order. `hash` is the key's hash.
    pub fn first(&mut self, key: TableKey, hash: u32) -> Option<NonNull<Node>> {
        let head = self.head(key, hash)?;
        // SAFETY: the head is queued here, and we hold the lock.
        unsafe { if is_passed_over(head.as_ptr()) { self.after(head) } else { Some(head) } }
    }

    /// As [`first`](Self::first), but may return a marker: for queues that have none, and for callers that accept one.
    pub fn head(&mut self, key: TableKey, hash: u32) -> Option<NonNull<Node>> {
        // SAFETY: we hold the lock.
        NonNull::new(unsafe { *tree::find(&raw mut self.root, key, hash) })
    }

    /// The waiter behind `node` in wake order.
    ///
    /// # Safety
    /// `node` is queued in this queue.
    pub unsafe fn after(&self, node: NonNull<Node>) -> Option<NonNull<Node>> {
        // SAFETY: the nodes of this queue are valid, and we hold the lock.
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
    ///
    /// # Safety
    /// `node` is queued in this queue.
    pub unsafe fn after_level(&mut self, node: NonNull<Node>) -> Option<NonNull<Node>> {
        // SAFETY: the nodes of this queue are valid, and we hold the lock.
        unsafe {
            let Position { key, hash } = Position::of(node.as_ptr());
            let head = self.head(key, hash)?;
            let next = NonNull::new(ring::after_level(head.as_ptr(), node.as_ptr()))?;
            if is_passed_over(next.as_ptr()) { self.after(next) } else { Some(next) }
        }
    }

    /// Offers the waiters of `key` to `pick` in wake order, and takes up to `limit` of those that it picks; `hash` is
    /// the key's hash. Taken waiters are unqueued and belong to the caller. Markers are offered too, and `pick` must
    /// not take them.
    pub fn take(
        &mut self,
        key: TableKey,
        hash: u32,
        limit: usize,
        mut pick: impl FnMut(NonNull<Node>) -> Pick,
    ) -> Taken {
        let mut taken = Taken::default();
        // SAFETY: the nodes of this queue are valid, and we hold the lock; `next` is read before `node` is unlinked.
        // The slot refers to the key's head, whichever node that is, until the last waiter is taken.
        unsafe {
            let queue = ptr::from_mut(self);
            let slot = tree::find(&raw mut (*queue).root, key, hash);
            let mut node = *slot;
            if node.is_null() {
                return taken;
            }
            let last = (*links(node)).prev;
            while !node.is_null() && taken.count < limit {
                let next = (*links(node)).next;
                let at = NonNull::new_unchecked(node);
                match pick(at) {
                    Pick::Take => {
                        Self::remove_from(queue, slot, node);
                        taken.push(at);
                    }
                    Pick::Skip => {}
                    Pick::Stop => {
                        taken.was_stopped = true;
                        break;
                    }
                }
                node = if node == last { ptr::null_mut() } else { next };
            }
        }
        taken
    }

    /// Calls `visit` with each key that has waiters, its hash, and its waiters in wake order.
    pub fn for_each_key(&mut self, mut visit: impl FnMut(TableKey, u32, Waiters<'_>)) {
        let mut next = self.first_from(Start::At(Position::before_all(0, 0)));
        while let Some(head) = next {
            // SAFETY: queued nodes are valid, and we hold the lock.
            let position = unsafe { Position::of(head.as_ptr()) };
            let next_waiter = self.first(position.key, position.hash);
            if next_waiter.is_some() {
                visit(position.key, position.hash, Waiters { next: next_waiter, queue: self });
            }
            next = self.first_from(Start::After(position));
        }
    }

    /// The head of the first key from `start` on, in order of space, hash and address.
    pub fn first_from(&self, start: Start) -> Option<NonNull<Node>> {
        // SAFETY: we hold the lock.
        NonNull::new(unsafe { tree::first_from(self.root, start) })
    }

    /// The head of the first key of `space` with a hash in `hashes`.
    pub fn first_in(&self, space: u64, hashes: RangeInclusive<u32>) -> Option<NonNull<Node>> {
        let head = self.first_from(Start::At(Position::before_all(space, *hashes.start())))?;
        // SAFETY: queued nodes are valid, and we hold the lock.
        let Position { key, hash } = unsafe { Position::of(head.as_ptr()) };
        (key.space == space && hash <= *hashes.end()).then_some(head)
    }

    /// Takes a key with all its waiters off the queue. The waiters still look queued: this is for a mover, which
    /// inserts the ring elsewhere at once.
    pub fn pop_ring(&mut self) -> Option<Ring> {
        let queue = ptr::from_mut(self);
        // SAFETY: the root is the slot of a head, and we hold the lock.
        unsafe { (!(*queue).root.is_null()).then(|| Self::pop_head(queue, &raw mut (*queue).root)) }
    }

    /// Takes the first `most` waiters, or all if there are fewer, of the first key of `space` with a hash in `hashes`
    /// off the queue. The waiters still look queued: this is for a mover, which inserts the ring elsewhere at once.
    pub fn pop_part(&mut self, space: u64, hashes: RangeInclusive<u32>, most: usize) -> Option<Ring> {
        let head = self.first_in(space, hashes).filter(|_| most > 0)?.as_ptr();
        // SAFETY: the nodes of this queue are valid, and we hold the lock.
        unsafe {
            let Position { key, hash } = Position::of(head);
            let queue = ptr::from_mut(self);
            let slot = tree::find(&raw mut (*queue).root, key, hash);
            let tail = (*links(head)).prev;
            let (mut last, mut count) = (head, 1);
            while last != tail && count < most {
                last = (*links(last)).next;
                count += 1;
            }
            if last == tail {
                return Some(Self::pop_head(queue, slot));
            }
            tree::replace(slot, ring::split(head, last));
            Some(Ring { head: NonNull::new_unchecked(head), hash })
        }
    }

    /// # Safety
    /// `slot` belongs to this queue's tree and refers to a head.
    unsafe fn pop_head(queue: *mut Self, slot: HeadSlot) -> Ring {
        // SAFETY: the caller guarantees it, and we hold the lock.
        unsafe {
            let head = NonNull::new_unchecked(*slot);
            tree::remove(slot);
            (*queue).keys -= 1;
            Ring { head, hash: (*links(head.as_ptr())).hash }
        }
    }

    /// Puts a ring from another bucket into this one, and returns the number of waiters in the ring. If the key has
    /// waiters here, the ring's waiters go behind those of equal priority, as if they came now.
    ///
    /// # Safety
    /// `bucket` is the bucket of this queue. The ring's old bucket is locked too.
    pub unsafe fn push_ring(&mut self, ring: Ring, bucket: *mut ()) -> u32 {
        let head = ring.head.as_ptr();
        // SAFETY: the nodes of a ring are valid, and the mover holds the locks of both buckets.
        unsafe {
            let last = (*links(head)).prev;
            let is_new = tree::find_or_insert(&raw mut self.root, head).is_none();
            self.keys += u32::from(is_new);
            let (mut node, mut count) = (head, 1);
            loop {
                let next = (*links(node)).next;
                if is_new {
                    (*node).set_bucket(bucket);
                } else {
                    self.insert(NonNull::new_unchecked(node), bucket);
                }
                if node == last {
                    return count;
                }
                node = next;
                count += 1;
            }
        }
    }
}

/// Whether `node` is a marker, which operations that look for waiters pass over.
///
/// # Safety
/// `node` is queued and its bucket's lock held.
#[inline(always)]
unsafe fn is_passed_over(node: *mut Node) -> bool {
    // SAFETY: the caller guarantees it.
    unsafe { (*links(node)).is_marker }
}

/// The waiters of one key, in wake order.
pub struct Waiters<'q> {
    next: Option<NonNull<Node>>,
    queue: &'q BucketQueue,
}

impl Iterator for Waiters<'_> {
    type Item = NonNull<Node>;

    fn next(&mut self) -> Option<NonNull<Node>> {
        let node = self.next?;
        // SAFETY: the node is queued there, and the lock is held while the queue is borrowed.
        self.next = unsafe { self.queue.after(node) };
        Some(node)
    }
}

/// Waiters of one key, all or the first ones, while a mover moves them from one bucket to another.
pub struct Ring {
    head: NonNull<Node>,
    /// The hash of the key.
    pub hash: u32,
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
    /// The number of nodes in the list.
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

    /// Takes the first node out of the list. The list does not read the node afterwards, so its waiter may be
    /// signalled.
    pub fn pop(&mut self) -> Option<NonNull<Node>> {
        let node = self.first?;
        // SAFETY: the nodes of this list belong to its holder.
        self.first = NonNull::new(unsafe { (*links(node.as_ptr())).next });
        self.count -= 1;
        Some(node)
    }
}

mod walk;

pub use walk::Most;

#[cfg(test)]
mod tests;
