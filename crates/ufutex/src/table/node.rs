//! Nodes: how a waiter is linked into a queue.
//!
//! A node has two stable states. **Queued**: its fields belong to the lock of the bucket that [`Node::bucket`] names, and its
//! owner may read only that pointer. **Unqueued**: the pointer is null and the fields belong to the thread that unlinked it:
//! the owner if it gave up, and otherwise a waker until it notifies the owner.
//!
//! A *marker* is a node without a waiter: see `list`. Only the marker's owner unlinks it.

use core::marker::PhantomPinned;
use core::ptr;

use super::hash::TableKey;
use crate::sync::{AtomicPtr, Ordering, UnsafeCell};

/// Links a waiter into a queue. Its neighbours point to it, so it is pinned, and while queued it is reached only through
/// pointers and shared references.
#[repr(C)]
pub struct Node {
    links: UnsafeCell<Links>,
    /// The bucket that the node is queued in, or null. The owner reads it, locks that bucket, and reads it again.
    bucket: AtomicPtr<()>,
    _pinned: PhantomPinned,
}

pub struct Links {
    pub key: TableKey,
    pub hash: u32,
    /// A lower number is woken earlier.
    pub priority: u8,
    /// Whether the node is the first waiter of its key, which is in the tree.
    pub is_head: bool,
    pub is_marker: bool,
    /// For a head: the subtree of the keys before its own. For the last waiter of a level, unless it is the head: the last
    /// waiter of the level that is woken before (see `ring`). Otherwise meaningless.
    pub left: *mut Node,
    /// As `left`, for the keys behind, and for the level that is woken after.
    pub right: *mut Node,
    /// The waiter of the key that is woken next. The last waiter's `next` is the head.
    pub next: *mut Node,
    pub prev: *mut Node,
}

impl Node {
    pub fn new(key: TableKey, hash: u32, priority: u8) -> Self {
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

    /// # Safety
    /// The caller owns the node's fields: see [`key`](Self::key).
    pub unsafe fn priority(&self) -> u8 {
        // SAFETY: guaranteed by the caller.
        self.links.with(|l| unsafe { (*l).priority })
    }

    /// Makes a marker for the waiters of `key`. It gets a priority when it is queued.
    pub fn marker(key: TableKey, hash: u32) -> Self {
        let node = Self::new(key, hash, 0);
        // SAFETY: the node is new, so no other thread has a pointer to it.
        node.links.with_mut(|l| unsafe { (*l).is_marker = true });
        node
    }

    #[inline(always)]
    pub fn bucket(&self) -> *mut () {
        self.bucket.load(Ordering::Acquire) // [K]: the contents of a bucket in a new table are visible
    }

    #[inline(always)]
    pub fn set_bucket(&self, bucket: *mut ()) {
        self.bucket.store(bucket, Ordering::Release); // [K]
    }

    /// # Safety
    /// The caller owns the node's fields: it holds the bucket's lock, or has unqueued the node.
    pub unsafe fn key(&self) -> (TableKey, u32) {
        // SAFETY: the caller owns the fields.
        self.links.with(|l| unsafe { ((*l).key, (*l).hash) })
    }
}

/// The links of `node`, as a pointer: the tree keeps pointers to one node's children while it reads another's links, and the
/// two may be the same node.
///
/// # Safety
/// `node` is valid and its fields belong to the caller.
#[inline(always)]
pub unsafe fn links(node: *mut Node) -> *mut Links {
    // SAFETY: the caller guarantees both.
    unsafe { (*node).links.with_mut(|l| l) }
}
