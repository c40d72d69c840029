//! Nodes: how a waiter is linked into a queue.
//!
//! A node has two stable states. **Queued**: it is linked, its fields belong to the lock of the bucket that
//! [`Node::bucket`] names, and its owner may only read that pointer. **Unqueued**: the pointer is null and the fields
//! belong to the thread that unlinked the node: its owner, when it gives up; a waker, until it signals.
//!
//! A *marker* is a node without a waiter: a walk in pieces inserts it where it has to go on (see `list::walk`). Only
//! its owner takes it off.

use core::marker::PhantomPinned;
use core::ptr;

use super::hash::Key;
use crate::sync::{AtomicPtr, Ordering, UnsafeCell};

/// How a waiter is linked into a queue. Its neighbours link to it, so it is pinned, and so is every struct that
/// contains one. While it is queued, it is reached only by pointers and shared references.
#[repr(C)]
pub struct Node {
    links: UnsafeCell<Links>,
    /// Null, or the bucket that the node is queued in. Changed only under that bucket's lock; read by the owner
    /// without it, who then locks the bucket and looks again.
    bucket: AtomicPtr<()>,
    _pinned: PhantomPinned,
}

/// How a queued node is linked.
pub struct Links {
    pub key: Key,
    pub hash: u32,
    /// A lower number is woken earlier.
    pub priority: u8,
    /// Whether the node is its key's first waiter, which stands in the tree.
    pub is_head: bool,
    /// Whether the node is a marker. Never changes.
    pub is_marker: bool,
    /// Of a head: the subtree of the keys before it. Of the last waiter of a level that is no head: the last waiter of
    /// the level woken before (see `ring`). Meaningless for other waiters.
    pub left: *mut Node,
    /// As `left`, for the keys behind it, and for the last waiter of the level woken after.
    pub right: *mut Node,
    /// The waiter of the key that is woken next. The last waiter links to the head.
    pub next: *mut Node,
    pub prev: *mut Node,
}

impl Node {
    pub fn new(key: Key, hash: u32, priority: u8) -> Self {
        Self {
            links: UnsafeCell::new(Links {
                key,
                hash,
                priority,
                is_head: false,
                is_marker: false,
                left: ptr::null_mut(),
                right: ptr::null_mut(),
                next: ptr::null_mut(),
                prev: ptr::null_mut(),
            }),
            bucket: AtomicPtr::new(ptr::null_mut()),
            _pinned: PhantomPinned,
        }
    }

    /// A marker for the waiters of `key`. It gets a priority when it is queued.
    pub fn marker(key: Key, hash: u32) -> Self {
        let node = Self::new(key, hash, 0);
        // SAFETY: nobody else has it yet.
        node.links.with_mut(|l| unsafe { (*l).is_marker = true });
        node
    }

    /// Where the node is queued, if it is.
    #[inline(always)]
    pub fn bucket(&self) -> *mut () {
        // [K]: Acquire pairs with the Release of `set_bucket`; a bucket in a new table is seen with its contents.
        self.bucket.load(Ordering::Acquire)
    }

    #[inline(always)]
    pub fn set_bucket(&self, bucket: *mut ()) {
        self.bucket.store(bucket, Ordering::Release); // [K]
    }

    /// Whether it is a marker.
    ///
    /// # Safety
    /// As for [`key`](Self::key).
    pub unsafe fn is_marker(&self) -> bool {
        // SAFETY: the caller owns the fields.
        self.links.with(|l| unsafe { (*l).is_marker })
    }

    /// The key, and its hash, that the node is queued by.
    ///
    /// # Safety
    /// The caller owns the node's fields: it holds the bucket's lock, or has unqueued the node.
    pub unsafe fn key(&self) -> (Key, u32) {
        // SAFETY: the caller owns the fields.
        self.links.with(|l| unsafe { ((*l).key, (*l).hash) })
    }
}

/// The links of `node`. A pointer instead of a reference, because the tree keeps pointers to `left` and `right` of one
/// node while it looks at the links of another, which may be the same node.
///
/// # Safety
/// `node` is valid and its fields belong to the caller.
#[inline(always)]
pub unsafe fn links(node: *mut Node) -> *mut Links {
    // SAFETY: says the caller.
    unsafe { (*node).links.with_mut(|l| l) }
}
