//! `radix`: a radix tree in each process, as the kernel's xarray: 64-way nodes, as high as the largest ID needs.
//!
//! Insertion and removal take the process's lock, a look-up takes none. A node that becomes empty is freed; a root with
//! nothing but its first slot gives way to what is in that slot, down to a lone timer with ID 0.
//!
//! In the kernel a freed node stays until every look-up has ended (RCU). Here its memory goes to a list of the process and
//! stays a node, so that a look-up may stand on one that is in use elsewhere. For an ID that is in the tree this
//! happens only where a root gave way, which is counted: a look-up that finds nothing and sees another count begins again.

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
/// In an entry: it is a node and no timer.
const NODE: usize = 2;

/// The kernel's `xa_node`.
#[repr(C)]
#[derive(Default)]
struct Node {
    shift: AtomicU8,
    /// Where it is in its parent.
    offset: AtomicU8,
    /// Slots in use.
    count: AtomicU8,
    _values: AtomicU8,
    /// As an entry; 0 for the root.
    parent: AtomicUsize,
    _tree: AtomicUsize,
    /// The next free one; the second is RCU's.
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

    /// Where an ID goes on.
    #[inline]
    fn offset_of(&self, id: i32) -> usize {
        (id >> self.shift()) as usize % SLOTS
    }

    /// Whether an ID has its place below.
    #[inline]
    fn covers(&self, id: i32) -> bool {
        (id as u64 >> self.shift()) < SLOTS as u64
    }

    /// Fills a slot that was empty.
    fn set(&self, offset: usize, entry: usize) {
        self.slots.0[offset].store(entry, Release);
        self.count.store(self.count.load(Relaxed) + 1, Relaxed);
    }

    /// Empties a slot; how many are in use then.
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
    /// The kernel's `xarray`, which is smaller than a line.
    root: OwnLine<Root>,
    all: Mutex<Nodes>,
}

#[derive(Default)]
struct Root {
    lock: Spin,
    /// The root node, a lone timer with ID 0, or 0.
    head: AtomicUsize,
    /// How often a root has given way.
    shrinks: AtomicUsize,
    /// Free nodes, linked.
    free: AtomicUsize,
    in_use: AtomicUsize,
}

/// Every node that was ever allocated.
#[derive(Default)]
struct Nodes(Vec<NonNull<Node>>);

// SAFETY: nodes are all atomic, and freed with the tree, when nobody else has it.
unsafe impl Send for Nodes {}

impl Drop for Nodes {
    fn drop(&mut self) {
        for node in &self.0 {
            // SAFETY: it came out of a box, once.
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

    /// Nodes in use: the kernel's allocator can use the others for any process.
    fn bytes(&self) -> usize {
        size_of::<Root>() + self.root.0.in_use.load(Relaxed) * size_of::<Node>()
    }

    #[cfg(feature = "sim")]
    fn name(&self) {
        crate::names::name("xarray", std::slice::from_ref(&self.root));
    }
}

impl Radix {
    /// Where an ID leads, which may be another timer, or a deleted one.
    #[inline]
    fn walk(&self, id: i32) -> Option<&Timer> {
        let mut entry = self.root.0.head.load(Acquire);
        let Some(root) = self.node(entry) else {
            return if id == 0 { timer(entry) } else { None };
        };
        if !root.covers(id) {
            return None;
        }
        // Also through nodes that are in use elsewhere: in any tree the way down ends.
        while let Some(node) = self.node(entry) {
            entry = node.slots.0[node.offset_of(id)].load(Acquire);
        }
        timer(entry)
    }

    #[inline]
    fn node(&self, entry: usize) -> Option<&Node> {
        // SAFETY: what is marked as a node is one of `all`, which live as long as this.
        (entry & NODE != 0).then(|| unsafe { &*std::ptr::with_exposed_provenance::<Node>(entry & !NODE) })
    }

    /// The root, made high enough for an ID. The lock is held; there is more than the lone timer 0.
    fn root_for(&self, id: i32) -> &Node {
        let head = &self.root.0.head;
        let mut root = match self.node(head.load(Relaxed)) {
            Some(node) => node,
            None => {
                let lone = head.load(Relaxed);
                // An empty tree begins as high as it must be.
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

    /// Roots with nothing but their first slot give way.
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
            // In this order: whoever sees the slot empty, or used anew, sees the count; whoever began with the count sees
            // the new root.
            head.store(first, Release);
            shrinks.fetch_add(1, AcqRel);
            root.clear(0);
            self.free(root);
        }
    }

    /// An empty node without a parent; the lock is held.
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
                // SAFETY: it is freed with the tree, of which this borrows.
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

    /// Takes an empty node back; the lock is held.
    fn free(&self, node: &Node) {
        let Root { free, in_use, .. } = &self.root.0;
        in_use.store(in_use.load(Relaxed) - 1, Relaxed);
        node.list[0].store(free.load(Relaxed), Relaxed);
        free.store(node.entry(), Relaxed);
    }
}

#[inline]
fn timer<'a>(entry: usize) -> Option<&'a Timer> {
    // SAFETY: what is no node and not 0 is a timer of this sample's memory.
    (entry != 0).then(|| unsafe { Timer::at(entry) })
}
