//! The queue of a bucket: a chain of keys, and for each key a ring of waiters in wake order.
//!
//! Only a [`Guard`](super::bucket::Guard) hands out a [`Queue`], so every method here runs under the bucket's lock.
//!
//! The first waiter of each key is that key's *head*: it alone stands in the chain. So finding a key passes each other
//! key once, however many wait for it, and the tail of a ring is its head's predecessor.
//!
//! A node has two stable states. **Queued**: it is linked, its fields belong to the lock of the bucket that
//! [`Node::bucket`] names, and its owner may only read that pointer. **Unqueued**: the pointer is null and the fields
//! belong to whoever unlinked the node: its owner, when it gives up; a waker, until it signals.

use core::marker::PhantomData;
use core::ptr::{self, NonNull};

use super::hash::Key;
use crate::sync::{AtomicPtr, Mutant, Ordering, UnsafeCell, mutant};

/// What a waiter is queued by.
#[repr(C)]
pub struct Node {
    links: UnsafeCell<Links>,
    /// Null, or the bucket that the node is queued in. Changed only under that bucket's lock; read by the owner
    /// without it, who then locks the bucket and looks again.
    bucket: AtomicPtr<()>,
}

struct Links {
    key: Key,
    hash: u32,
    /// Lower is woken earlier.
    priority: u8,
    is_head: bool,
    chain_next: *mut Node,
    chain_prev: *mut Node,
    next: *mut Node,
    prev: *mut Node,
}

impl Node {
    pub fn new(key: Key, hash: u32, priority: u8) -> Self {
        Self {
            links: UnsafeCell::new(Links {
                key,
                hash,
                priority,
                is_head: false,
                chain_next: ptr::null_mut(),
                chain_prev: ptr::null_mut(),
                next: ptr::null_mut(),
                prev: ptr::null_mut(),
            }),
            bucket: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Where the node is queued, if it is.
    pub fn bucket(&self) -> *mut () {
        // [K]: Acquire pairs with the Release of `set_bucket`; a bucket in a new table is seen with its contents.
        self.bucket.load(Ordering::Acquire)
    }

    fn set_bucket(&self, bucket: *mut ()) {
        self.bucket.store(bucket, Ordering::Release); // [K]
    }

    /// The key and hash that the node waits for.
    ///
    /// # Safety
    /// The caller owns the node's fields: it holds the bucket's lock, or has unqueued the node.
    pub unsafe fn key(&self) -> (Key, u32) {
        // SAFETY: the caller owns the fields.
        self.links.with(|l| unsafe { ((*l).key, (*l).hash) })
    }
}

/// The links of a node that the caller may touch.
///
/// # Safety
/// `node` is valid and its fields belong to the caller; the reference must be gone before those of `node` are asked
/// for again.
unsafe fn links<'a>(node: *mut Node) -> &'a mut Links {
    // SAFETY: passed on to the caller.
    unsafe { (*node).links.with_mut(|l| &mut *l) }
}

/// A bucket's queue. All zeroes is an empty one.
#[repr(transparent)]
pub struct Queue {
    first: *mut Node,
}

/// Whether a waiter is taken off the queue.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Pick {
    Take,
    Skip,
    /// Look no further.
    Stop,
}

impl Queue {
    pub const fn new() -> Self {
        Self { first: ptr::null_mut() }
    }

    /// Queues `node` behind the waiters of its key that have its priority or a better one. Answers how many keys
    /// stand in the chain if this one is new there.
    ///
    /// # Safety
    /// `node` is valid and unqueued (or unlinked by [`take_to`](Self::take_to)), its fields are the caller's, and it stays
    /// valid and in place until it is unqueued again. `bucket` is the bucket of this queue.
    pub unsafe fn insert(&mut self, node: NonNull<Node>, bucket: *mut ()) -> Option<u32> {
        let node = node.as_ptr();
        // SAFETY: unqueued and the caller's.
        let key = unsafe { links(node) }.key;
        let (head, keys) = self.find(key);
        // SAFETY: all of these nodes are queued here, and we hold the lock; `node` is the caller's.
        unsafe {
            if head.is_null() {
                ring_of_one(node);
                self.chain_push(node);
            } else {
                let next = wake_before(head, links(node).priority);
                ring_insert(node, next.unwrap_or(head));
                if next == Some(head) {
                    self.chain_replace(head, node);
                }
            }
            (*node).set_bucket(bucket);
        }
        head.is_null().then_some(keys + 1)
    }

    /// Takes `node` off the queue.
    ///
    /// # Safety
    /// `node` is queued in this queue.
    pub unsafe fn remove(&mut self, node: NonNull<Node>) {
        // SAFETY: says the caller; unlinked, it is still the lock's until its bucket is null.
        unsafe {
            self.unlink(node);
            node.as_ref().set_bucket(ptr::null_mut());
        }
    }

    /// Takes `node` off the queue and leaves it looking queued, so that its owner waits for the lock: for a requeue, which
    /// inserts it elsewhere at once, as a waiter of `key`.
    ///
    /// # Safety
    /// `node` is queued in this queue. The lock of the queue where it goes next is held too, and stays so until it is there.
    pub unsafe fn take_to(&mut self, node: NonNull<Node>, key: Key, hash: u32) {
        // SAFETY: says the caller; the fields are guarded by the lock that we hold.
        unsafe {
            self.unlink(node);
            let l = links(node.as_ptr());
            (l.key, l.hash) = (key, hash);
        }
        if mutant(Mutant::RequeueShowsTaken) {
            // SAFETY: valid, as it is queued.
            unsafe { node.as_ref() }.set_bucket(ptr::null_mut());
        }
    }

    /// # Safety
    /// `node` is queued in this queue.
    unsafe fn unlink(&mut self, node: NonNull<Node>) {
        let node = node.as_ptr();
        // SAFETY: the nodes of this queue are valid, and we hold the lock.
        unsafe {
            let next = links(node).next;
            if links(node).is_head {
                if next == node {
                    self.chain_remove(node);
                } else {
                    self.chain_replace(node, next);
                }
            }
            ring_remove(node);
        }
    }

    /// How many waiters of `key` there are, counted up to `limit`.
    pub fn count(&self, key: Key, limit: usize) -> usize {
        let head = self.find(key).0;
        if head.is_null() {
            return 0;
        }
        let (mut node, mut count) = (head, 1);
        while count < limit {
            // SAFETY: the nodes of this queue are valid, and we hold the lock.
            node = unsafe { links(node) }.next;
            if node == head {
                break;
            }
            count += 1;
        }
        count
    }

    /// The waiter of `key` that would be woken first.
    pub fn first(&self, key: Key) -> Option<NonNull<Node>> {
        NonNull::new(self.find(key).0)
    }

    /// The waiter behind `node` in wake order.
    ///
    /// # Safety
    /// `node` is queued in this queue.
    pub unsafe fn after(&self, node: NonNull<Node>) -> Option<NonNull<Node>> {
        // SAFETY: the nodes of this queue are valid, and we hold the lock.
        unsafe {
            let next = links(node.as_ptr()).next;
            (!links(next).is_head).then(|| NonNull::new_unchecked(next))
        }
    }

    /// Offers the waiters of `key` to `pick` in wake order and takes up to `limit` of those it picks. They come out
    /// unqueued and belong to the caller.
    pub fn take(&mut self, key: Key, limit: usize, mut pick: impl FnMut(NonNull<Node>) -> Pick) -> Taken {
        let mut taken = Taken::default();
        let mut node = self.find(key).0;
        if node.is_null() {
            return taken;
        }
        // SAFETY: the nodes of this queue are valid, and we hold the lock; `next` is read before `node` is unlinked.
        unsafe {
            let last = links(node).prev;
            while !node.is_null() && taken.count < limit {
                let next = links(node).next;
                let at = NonNull::new_unchecked(node);
                match pick(at) {
                    Pick::Take => {
                        self.remove(at);
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

    /// Shows `look` each key, its hash, and its waiters in wake order.
    pub fn for_each_key(&mut self, mut look: impl FnMut(Key, u32, Waiters<'_>)) {
        let mut node = self.first;
        while !node.is_null() {
            let (key, hash, next) = {
                // SAFETY: queued nodes are valid, and we hold the lock.
                let l = unsafe { links(node) };
                (l.key, l.hash, l.chain_next)
            };
            look(key, hash, Waiters { head: node, next: node, _queue: PhantomData });
            node = next;
        }
    }

    /// Takes the key at the front of the chain off the queue, with all its waiters, without unqueueing them: for a
    /// mover, which inserts the ring elsewhere at once.
    pub fn pop_ring(&mut self) -> Option<Ring> {
        let head = NonNull::new(self.first)?;
        // SAFETY: it is queued here, and we hold the lock.
        let hash = unsafe {
            self.chain_remove(head.as_ptr());
            links(head.as_ptr()).hash
        };
        Some(Ring { head, hash })
    }

    /// As [`pop_ring`](Self::pop_ring), for a key that is `wanted`.
    pub fn pop_ring_if(&mut self, wanted: impl Fn(Key) -> bool) -> Option<Ring> {
        let mut node = self.first;
        while let Some(head) = NonNull::new(node) {
            // SAFETY: it is queued here, and we hold the lock.
            unsafe {
                let (key, hash, next) = {
                    let l = links(node);
                    (l.key, l.hash, l.chain_next)
                };
                if wanted(key) {
                    self.chain_remove(node);
                    return Some(Ring { head, hash });
                }
                node = next;
            }
        }
        None
    }

    /// Puts a ring from another bucket into this one and answers how many waiters it has.
    ///
    /// # Safety
    /// No waiter of the ring's key is queued here, and `bucket` is the bucket of this queue. The ring's old bucket
    /// is locked too.
    pub unsafe fn push_ring(&mut self, ring: Ring, bucket: *mut ()) -> u32 {
        let head = ring.head.as_ptr();
        let mut count = 0;
        // SAFETY: the nodes of a ring are valid, and the mover holds the locks of both buckets.
        unsafe {
            self.chain_push(head);
            let mut node = head;
            loop {
                (*node).set_bucket(bucket);
                count += 1;
                node = links(node).next;
                if node == head {
                    return count;
                }
            }
        }
    }

    /// The head of `key`, or null, and how many keys were passed.
    fn find(&self, key: Key) -> (*mut Node, u32) {
        let mut node = self.first;
        let mut passed = 0;
        while !node.is_null() {
            // SAFETY: queued nodes are valid, and we hold the lock.
            let l = unsafe { links(node) };
            if l.key == key {
                break;
            }
            passed += 1;
            node = l.chain_next;
        }
        (node, passed)
    }

    /// # Safety
    /// `node` belongs to the caller and stands in no chain.
    unsafe fn chain_push(&mut self, node: *mut Node) {
        // SAFETY: the first node, if any, is queued here; `node` is the caller's.
        unsafe {
            if !self.first.is_null() {
                links(self.first).chain_prev = node;
            }
            let l = links(node);
            l.is_head = true;
            l.chain_prev = ptr::null_mut();
            l.chain_next = self.first;
        }
        self.first = node;
    }

    /// # Safety
    /// `node` stands in this chain.
    unsafe fn chain_remove(&mut self, node: *mut Node) {
        // SAFETY: the neighbours of a node of this chain stand in it too.
        unsafe {
            let (prev, next) = {
                let l = links(node);
                l.is_head = false;
                (l.chain_prev, l.chain_next)
            };
            self.chain_join(prev, next);
        }
    }

    /// # Safety
    /// `old` stands in this chain, `new` in none.
    unsafe fn chain_replace(&mut self, old: *mut Node, new: *mut Node) {
        // SAFETY: as in `chain_remove`.
        unsafe {
            let (prev, next) = {
                let l = links(old);
                l.is_head = false;
                (l.chain_prev, l.chain_next)
            };
            links(new).is_head = true;
            self.chain_join(prev, new);
            self.chain_join(new, next);
        }
    }

    /// Makes `next` follow `prev`; null stands for either end.
    ///
    /// # Safety
    /// Both stand in this chain or are about to.
    unsafe fn chain_join(&mut self, prev: *mut Node, next: *mut Node) {
        // SAFETY: says the caller.
        unsafe {
            if prev.is_null() {
                self.first = next;
            } else {
                links(prev).chain_next = next;
            }
            if !next.is_null() {
                links(next).chain_prev = prev;
            }
        }
    }
}

/// The waiter in the ring of `head` that one with `priority` has to stand before; `None`: behind them all.
///
/// # Safety
/// `head` is queued and the bucket's lock held.
unsafe fn wake_before(head: *mut Node, priority: u8) -> Option<*mut Node> {
    // SAFETY: the nodes of a ring are valid.
    unsafe {
        let last = links(head).prev;
        if links(last).priority <= priority {
            return None;
        }
        let mut node = head;
        while links(node).priority <= priority {
            node = links(node).next;
        }
        Some(node)
    }
}

/// # Safety
/// `node` is the caller's.
unsafe fn ring_of_one(node: *mut Node) {
    // SAFETY: says the caller.
    let l = unsafe { links(node) };
    l.next = node;
    l.prev = node;
}

/// Inserts `node` before `next`.
///
/// # Safety
/// `next` is queued and the bucket's lock held; `node` is the caller's.
unsafe fn ring_insert(node: *mut Node, next: *mut Node) {
    // SAFETY: the nodes of a ring are valid.
    unsafe {
        let prev = links(next).prev;
        links(node).next = next;
        links(node).prev = prev;
        links(prev).next = node;
        links(next).prev = node;
    }
}

/// # Safety
/// `node` is queued and the bucket's lock held.
unsafe fn ring_remove(node: *mut Node) {
    // SAFETY: the nodes of a ring are valid.
    unsafe {
        let (prev, next) = (links(node).prev, links(node).next);
        links(prev).next = next;
        links(next).prev = prev;
    }
}

/// The waiters of one key, in wake order.
pub struct Waiters<'q> {
    head: *mut Node,
    /// Null at the end.
    next: *mut Node,
    _queue: PhantomData<&'q Queue>,
}

impl Iterator for Waiters<'_> {
    type Item = NonNull<Node>;

    fn next(&mut self) -> Option<NonNull<Node>> {
        let node = NonNull::new(self.next)?;
        // SAFETY: queued nodes are valid, and the lock is held while the queue is borrowed.
        let next = unsafe { links(node.as_ptr()) }.next;
        self.next = if next == self.head { ptr::null_mut() } else { next };
        Some(node)
    }
}

/// All waiters of one key, on their way from one bucket to another.
pub struct Ring {
    head: NonNull<Node>,
    /// The hash of their key.
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
    /// How many have been taken and not been popped.
    pub fn len(&self) -> usize {
        self.count
    }

    fn push(&mut self, node: NonNull<Node>) {
        // SAFETY: the nodes of this list are ours.
        unsafe {
            links(node.as_ptr()).next = ptr::null_mut();
            match self.last {
                Some(last) => links(last.as_ptr()).next = node.as_ptr(),
                None => self.first = Some(node),
            }
        }
        self.last = Some(node);
        self.count += 1;
    }

    /// The first of them. Nothing of it is read afterwards, so it may be signalled.
    pub fn pop(&mut self) -> Option<NonNull<Node>> {
        let node = self.first?;
        // SAFETY: the nodes of this list are ours.
        self.first = NonNull::new(unsafe { links(node.as_ptr()) }.next);
        self.count -= 1;
        Some(node)
    }
}
