//! `radix`: a radix tree in each process, like the kernel's xarray: nodes have 64 slots, and the tree is as high as the
//! largest ID requires.
//!
//! Insertion and removal take the process's lock; a look-up takes none. A node that becomes empty is freed. A root in
//! which only the first slot is used is replaced by what is in that slot, down to a lone timer with ID 0.
//!
//! In the kernel a freed node stays valid until every look-up has ended (RCU). Here it goes to a free list of the
//! process and stays a node, so a look-up may be at a node that is by now in use elsewhere in the tree. For an ID that
//! is in the tree this happens only where a root was replaced. These replacements are counted: a look-up that finds
//! nothing and sees a changed count begins again.

use crate::OwnLine;
use crate::process::Index;
use crate::spin::Spin;
use crate::sync::Ordering::{AcqRel, Acquire, Relaxed, Release};
use crate::sync::{AtomicU8, AtomicUsize};
use crate::timer::Timer;
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

const SLOTS: usize = 64;
const BITS: u8 = SLOTS.ilog2() as u8;
/// A bit of an entry: the entry is a node, not a timer.
const NODE: usize = 2;

/// The kernel's `xa_node`.
#[repr(C)]
#[derive(Default)]
struct Node {
    shift: AtomicU8,
    /// The index of its slot in the parent.
    offset: AtomicU8,
    /// The number of slots in use.
    count: AtomicU8,
    _values: AtomicU8,
    /// The parent as an entry; 0 for the root.
    parent: AtomicUsize,
    _tree: AtomicUsize,
    /// The next free node. The second word is RCU's in the kernel.
    list: [AtomicUsize; 2],
    slots: Slots,
    _marks: [AtomicUsize; 3],
}

const _: () = assert!(size_of::<Node>() == 576);

struct Slots([AtomicUsize; SLOTS]);

impl Default for Slots {
    fn default() -> Self {
        Self([const { AtomicUsize::new(0) }; SLOTS])
    }
}

impl Node {
    #[inline]
    fn entry(&self) -> usize {
        std::ptr::from_ref(self).expose_provenance() | NODE
    }

    #[inline]
    fn shift(&self) -> u8 {
        self.shift.load(Relaxed)
    }

    /// The slot under which an ID is found.
    #[inline]
    fn offset_of(&self, id: i32) -> usize {
        (id >> self.shift()) as usize % SLOTS
    }

    /// Whether an ID belongs below this node.
    #[inline]
    fn covers(&self, id: i32) -> bool {
        (id as u64 >> self.shift()) < SLOTS as u64
    }

    /// Fills a slot that was empty.
    fn set(&self, offset: usize, entry: usize) {
        self.slots.0[offset].store(entry, Release);
        self.count.store(self.count.load(Relaxed) + 1, Relaxed);
    }

    /// Empties a slot, and returns the number of slots in use afterwards.
    fn clear(&self, offset: usize) -> u8 {
        self.slots.0[offset].store(0, Release);
        let left = self.count.load(Relaxed) - 1;
        self.count.store(left, Relaxed);
        left
    }

    fn adopt(&self, offset: usize, child: &Node) {
        child.parent.store(self.entry(), Relaxed);
        child.offset.store(offset as u8, Relaxed);
        self.set(offset, child.entry());
    }
}

/// The tree of one process.
#[derive(Default)]
pub struct Radix {
    /// The counterpart of the kernel's `xarray`, which is smaller than a line.
    root: OwnLine<Root>,
    all: Mutex<Nodes>,
}

#[derive(Default)]
struct Root {
    lock: Spin,
    /// The root node, a lone timer with ID 0, or 0.
    head: AtomicUsize,
    /// The number of times that a root was replaced.
    shrinks: AtomicUsize,
    /// The first free node, which links to the next.
    free: AtomicUsize,
    in_use: AtomicUsize,
}

/// All nodes that were ever allocated.
#[derive(Default)]
struct Nodes(Vec<NonNull<Node>>);

// SAFETY: all fields of nodes are atomic. Nodes are freed with the tree, when no other thread uses it.
unsafe impl Send for Nodes {}

impl Drop for Nodes {
    fn drop(&mut self) {
        for node in &self.0 {
            // SAFETY: the node came from a box, and is freed once.
            drop(unsafe { Box::from_raw(node.as_ptr()) });
        }
    }
}

impl Index for Radix {
    #[inline]
    fn insert(&self, _owner: usize, id: i32, timer: &Timer) -> bool {
        let _held = self.root.0.lock.lock();
        let head = &self.root.0.head;
        if head.load(Relaxed) == 0 && id == 0 {
            head.store(timer.address(), Release);
            return true;
        }
        if head.load(Relaxed) != 0 && self.node(head.load(Relaxed)).is_none() && id == 0 {
            return false;
        }
        let mut node = self.root_for(id);
        while node.shift() > 0 {
            let offset = node.offset_of(id);
            node = match self.node(node.slots.0[offset].load(Relaxed)) {
                Some(child) => child,
                None => {
                    let child = self.allocate(node.shift() - BITS);
                    node.adopt(offset, child);
                    child
                }
            };
        }
        let offset = node.offset_of(id);
        if node.slots.0[offset].load(Relaxed) != 0 {
            return false;
        }
        node.set(offset, timer.address());
        true
    }

    #[inline]
    fn find(&self, owner: usize, id: i32) -> Option<&Timer> {
        loop {
            let shrinks = self.root.0.shrinks.load(Acquire);
            let found = self.walk(id).filter(|timer| timer.is(owner, id));
            if found.is_some() || self.root.0.shrinks.load(Acquire) == shrinks {
                return found;
            }
        }
    }

    #[inline]
    fn remove(&self, _owner: usize, id: i32, _timer: &Timer) {
        let _held = self.root.0.lock.lock();
        let head = &self.root.0.head;
        let Some(mut node) = self.node(head.load(Relaxed)) else {
            head.store(0, Release);
            return;
        };
        while node.shift() > 0 {
            let Some(child) = self.node(node.slots.0[node.offset_of(id)].load(Relaxed)) else { return };
            node = child;
        }
        let mut left = node.clear(node.offset_of(id));
        while left == 0 {
            let (parent, offset) = (node.parent.load(Relaxed), node.offset.load(Relaxed));
            left = match self.node(parent) {
                Some(parent) => {
                    let left = parent.clear(usize::from(offset));
                    self.free(node);
                    node = parent;
                    left
                }
                None => {
                    head.store(0, Release);
                    self.free(node);
                    return;
                }
            };
        }
        self.shrink();
    }

    /// Counts only nodes in use: the kernel's allocator could use the others for any process.
    fn bytes(&self) -> usize {
        size_of::<Root>() + self.root.0.in_use.load(Relaxed) * size_of::<Node>()
    }

    #[cfg(feature = "sim")]
    fn name(&self) {
        crate::names::name("xarray", std::slice::from_ref(&self.root));
    }
}

impl Radix {
    /// The timer to which an ID leads. It may be another timer, or a deleted one.
    #[inline]
    fn walk(&self, id: i32) -> Option<&Timer> {
        let mut entry = self.root.0.head.load(Acquire);
        let Some(root) = self.node(entry) else {
            return if id == 0 { timer(entry) } else { None };
        };
        if !root.covers(id) {
            return None;
        }
        // The walk may pass through nodes that are in use elsewhere: the way down ends in any tree.
        while let Some(node) = self.node(entry) {
            entry = node.slots.0[node.offset_of(id)].load(Acquire);
        }
        timer(entry)
    }

    #[inline]
    fn node(&self, entry: usize) -> Option<&Node> {
        // SAFETY: an entry that is marked as a node is one of `all`, which live as long as `self`.
        (entry & NODE != 0).then(|| unsafe { &*std::ptr::with_exposed_provenance::<Node>(entry & !NODE) })
    }

    /// The root, raised until it covers `id`. The caller holds the lock. The tree is more than the lone timer 0.
    fn root_for(&self, id: i32) -> &Node {
        let head = &self.root.0.head;
        let mut root = match self.node(head.load(Relaxed)) {
            Some(node) => node,
            None => {
                let lone = head.load(Relaxed);
                // An empty tree begins with the height that the ID requires.
                let mut shift = 0;
                while lone == 0 && id as u64 >> shift >= SLOTS as u64 {
                    shift += BITS;
                }
                let node = self.allocate(shift);
                if lone != 0 {
                    node.set(0, lone);
                }
                head.store(node.entry(), Release);
                node
            }
        };
        while !root.covers(id) {
            let higher = self.allocate(root.shift() + BITS);
            higher.adopt(0, root);
            head.store(higher.entry(), Release);
            root = higher;
        }
        root
    }

    /// Replaces roots in which only the first slot is used.
    fn shrink(&self) {
        let Root { head, shrinks, .. } = &self.root.0;
        while let Some(root) = self.node(head.load(Relaxed)) {
            let first = root.slots.0[0].load(Relaxed);
            if root.count.load(Relaxed) != 1 || first == 0 {
                return;
            }
            if let Some(child) = self.node(first) {
                child.parent.store(0, Relaxed);
            }
            // The order matters: a look-up that sees the slot empty or reused also sees the new count, and a look-up
            // that began with the new count sees the new root.
            head.store(first, Release);
            shrinks.fetch_add(1, AcqRel);
            root.clear(0);
            self.free(root);
        }
    }

    /// Allocates an empty node without a parent. The caller holds the lock.
    fn allocate(&self, shift: u8) -> &Node {
        let Root { free, in_use, .. } = &self.root.0;
        let node = match self.node(free.load(Relaxed)) {
            Some(node) => {
                free.store(node.list[0].load(Relaxed), Relaxed);
                node
            }
            None => {
                let node = NonNull::from(Box::leak(Box::<Node>::default()));
                self.all.lock().unwrap_or_else(PoisonError::into_inner).0.push(node);
                // SAFETY: it is freed with the tree, which this borrows.
                let node = unsafe { node.as_ref() };
                #[cfg(feature = "sim")]
                crate::names::name("xa_node", std::slice::from_ref(node));
                node
            }
        };
        in_use.store(in_use.load(Relaxed) + 1, Relaxed);
        node.parent.store(0, Relaxed);
        node.shift.store(shift, Relaxed);
        node
    }

    /// Frees an empty node. The caller holds the lock.
    fn free(&self, node: &Node) {
        let Root { free, in_use, .. } = &self.root.0;
        in_use.store(in_use.load(Relaxed) - 1, Relaxed);
        node.list[0].store(free.load(Relaxed), Relaxed);
        free.store(node.entry(), Relaxed);
    }
}

#[inline]
fn timer<'a>(entry: usize) -> Option<&'a Timer> {
    // SAFETY: an entry that is neither 0 nor a node is a timer of this sample's memory.
    (entry != 0).then(|| unsafe { Timer::at(entry) })
}
