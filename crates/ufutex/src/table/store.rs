//! The memory of a domain's tables.
//!
//! A domain keeps at most one table per power of two and frees them only when it is dropped. So a stale pointer to a
//! table or a bucket is always one to valid memory: there is nothing to count and no grace period. All tables together
//! take at most twice the memory of the largest.
//!
//! As in the kernel, a table lies on the node of the thread that makes it.

use core::alloc::Layout as MemoryLayout;
use core::ptr::{self, NonNull};

use super::bucket::Bucket;
use super::layout::Layout;
use super::{MAX_SLOTS_LOG2, Table};
use crate::sync::{AtomicPtr, MODEL, Ordering};
use crate::sys::topology::{NodeMemory, Nodes};

/// The tables that a domain has ever had, by size.
pub struct Store<L: Layout> {
    by_size: [AtomicPtr<Bucket<L>>; MAX_SLOTS_LOG2 as usize + 1],
    nodes: Nodes,
}

impl<L: Layout> Store<L> {
    pub fn new(nodes: Nodes) -> Self {
        Self { by_size: core::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())), nodes }
    }

    /// The table with `1 << slots_log2` buckets, none of them live; made when there has been none. `None` when its
    /// memory cannot be had.
    ///
    /// Only the holder of the domain's resize lock calls this, and not for a table in use.
    pub fn get_or_make(&self, slots_log2: u32) -> Option<Table<L>> {
        let entry = &self.by_size[slots_log2 as usize];
        let table = entry.load(Ordering::Acquire); // [F]
        if !table.is_null() {
            // SAFETY: an entry that is not null is a table, and is valid until `drop`.
            return Some(unsafe { Table::from_raw(table) });
        }
        let table = make(slots_log2, self.nodes.memory(), self.nodes.topology().current_node())?;
        entry.store(table.into_raw(), Ordering::Release); // [F]
        Some(table)
    }

    /// The tables that there are.
    pub fn tables(&self) -> impl Iterator<Item = Table<L>> {
        self.by_size.iter().filter_map(|entry| {
            let table = entry.load(Ordering::Acquire); // [F]
            // SAFETY: an entry that is not null is a table, and is valid until `drop`.
            (!table.is_null()).then(|| unsafe { Table::from_raw(table) })
        })
    }

    /// What all tables take, in bytes.
    pub fn bytes(&self) -> usize {
        (0..self.by_size.len())
            .filter(|&log2| !self.by_size[log2].load(Ordering::Relaxed).is_null())
            .map(|log2| size_of::<Bucket<L>>() << log2)
            .sum()
    }
}

impl<L: Layout> Drop for Store<L> {
    fn drop(&mut self) {
        for entry in &self.by_size {
            let table = entry.load(Ordering::Acquire);
            if !table.is_null() {
                // SAFETY: a table that `make` made in this memory; `&mut self` says nobody uses it.
                unsafe { free(Table::<L>::from_raw(table), self.nodes.memory()) };
            }
        }
    }
}

fn memory_layout<L: Layout>(slots: usize) -> Option<MemoryLayout> {
    MemoryLayout::array::<Bucket<L>>(slots).ok()
}

/// A table on `node` whose buckets are not live, unlocked and empty; [`free`] takes it back. `None` when its memory
/// cannot be had.
pub fn make<L: Layout>(slots_log2: u32, memory: &dyn NodeMemory, node: u32) -> Option<Table<L>> {
    let slots = 1 << slots_log2;
    let layout = memory_layout::<L>(slots)?;
    // The layout's size is not zero: a bucket has a size and there is at least one.
    let buckets = NonNull::new(memory.allocate(layout, node).cast::<Bucket<L>>())?;
    if MODEL {
        for i in 0..slots {
            // SAFETY: within the allocation. A model's atomics are not all zeroes; real ones are, and their pages
            // stay untouched until a mover needs them.
            unsafe { buckets.add(i).write(Bucket::new(0)) };
        }
    }
    #[cfg(feature = "sim")]
    Bucket::<L>::name(buckets, slots);
    // SAFETY: just allocated with that many buckets.
    let table = unsafe { Table::new(buckets, slots_log2) };
    if size_of::<L::Back>() != 0 {
        (0..slots).for_each(|i| table.slot(i).set_back(table.identity()));
    }
    Some(table)
}

/// # Safety
/// `table` came from `make` with this `memory`, and nobody uses it.
pub unsafe fn free<L: Layout>(table: Table<L>, memory: &dyn NodeMemory) {
    let buckets = table.identity().cast::<Bucket<L>>();
    if let Some(layout) = memory_layout::<L>(table.slots()) {
        // SAFETY: says the caller; buckets need no drop but in a model, which is told by dropping them.
        unsafe {
            if MODEL {
                (0..table.slots()).for_each(|i| buckets.add(i).drop_in_place());
            }
            memory.free(buckets.cast(), layout);
        }
    }
}

/// Makes every bucket of a fresh table live.
pub fn make_all_live<L: Layout>(table: Table<L>) {
    (0..table.slots()).for_each(|i| table.slot(i).make_live());
}
