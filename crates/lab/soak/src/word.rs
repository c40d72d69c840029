//! The words of the crowd: private ones, words of a shared object, and words with a node that changes.

use std::sync::atomic::{AtomicU32, Ordering};
use ufutex::{Access, Fault, Key, Scope, SharedObject, Target};

/// A word and the number of its node, side by side as `FUTEX2_NUMA` has them.
#[derive(Default)]
pub struct Cell {
    pub value: AtomicU32,
    pub node: AtomicU32,
}

impl Cell {
    pub fn private(&self) -> Word<'_> {
        Word { value: &self.value, scope: Scope::Private, node: None }
    }

    /// The word on its present node.
    pub fn on_node(&self) -> Word<'_> {
        self.on(self.node.load(Ordering::Relaxed))
    }

    /// The word on `node`.
    pub fn on(&self, node: u32) -> Word<'_> {
        Word { value: &self.value, scope: Scope::Private, node: Some(node) }
    }

    /// The word at `index` of an object.
    pub fn in_object(&self, object: &SharedObject, index: usize) -> Word<'_> {
        Word { value: &self.value, scope: Scope::Object { id: object.id(), offset: 4 * index as u64 }, node: None }
    }
}

/// `count` cells.
pub fn cells(count: usize) -> Vec<Cell> {
    (0..count).map(|_| Cell::default()).collect()
}

/// A word as an operation names it.
#[derive(Clone, Copy)]
pub struct Word<'a> {
    value: &'a AtomicU32,
    scope: Scope,
    node: Option<u32>,
}

impl Word<'_> {
    /// Whether waiters may be requeued from here to `to`: waiters in a shared table may not be taken into a table that
    /// fewer domains share. Those of an object stay in objects, and those of a node do not come into the domain's own table.
    pub fn may_move_to(&self, to: &Self) -> bool {
        to.reach() >= self.reach()
    }

    /// How many domains share the word's table: 0 for one, 1 for those of a namespace, 2 for all.
    fn reach(&self) -> u8 {
        match self.scope {
            Scope::Object { .. } => 2,
            _ => u8::from(self.node.is_some()),
        }
    }

    pub fn value(&self) -> u32 {
        self.value.load(Ordering::Acquire) // [Lf]
    }

    pub fn store(&self, value: u32) {
        self.value.store(value, Ordering::Release); // [Lf]
    }

    pub fn change(&self) {
        self.value.fetch_add(1, Ordering::Release); // [Lf]
    }
}

impl Key for Word<'_> {
    fn address(&self) -> u64 {
        self.value.address()
    }
    fn scope(&self) -> Scope {
        self.scope
    }
    fn node(&self) -> Option<u32> {
        self.node
    }
}

impl Target for Word<'_> {
    type Value = u32;

    fn load(&self) -> Result<u32, Fault> {
        Target::load(&self.value)
    }
    fn compare_exchange(&self, current: u32, new: u32) -> Result<Result<u32, u32>, Fault> {
        Target::compare_exchange(&self.value, current, new)
    }
    fn fault_in(&self, access: Access) -> Result<(), Fault> {
        self.value.fault_in(access)
    }
}
