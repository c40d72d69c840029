//! The memory of a domain's tables.
//!
//! A domain keeps at most one table per power of two, and frees them only when the domain is dropped. So a stale
//! pointer to a table or a bucket always points to valid memory, and neither reference counts nor grace periods are
//! needed. All tables together take less than twice the memory of the largest.
//!
//! A table is refused, as if there were no memory for it, if it would exceed the domain's limit or the limit for all
//! domains of the system. For each domain, the system's limit does not count as much memory as the smallest table of a
//! policy takes. So no domain can keep another from having a table.
//!
//! As in the kernel, a table lies on the node of the thread that makes it.

use core::alloc::Layout as MemoryLayout;
use core::ptr::{self, NonNull};

use super::bucket::Bucket;
use super::budget::Budget;
use super::layout::Layout;
use super::size::SMALLEST_LOG2;
use super::{MAX_SLOTS_LOG2, Table};
use crate::sync::{AtomicPtr, MODEL, Ordering, Tally};
use crate::sys::topology::{NodeMemory, Nodes};
use crate::sys::unwind::Otherwise;

/// The tables that a domain has ever had, by size.
pub struct Store<L: Layout> {
    by_size: [AtomicPtr<Bucket<L>>; MAX_SLOTS_LOG2 as usize + 1],
    nodes: Nodes,
    /// The memory that all domains of the system may take together; valid as long as the store.
    budget: NonNull<Budget>,
    /// The memory that this domain's tables may take, in bytes.
    max_bytes: usize,
    /// How many tables were refused because of one of the two limits.
    pub refused: Tally,
}

impl<L: Layout> Store<L> {
    /// An empty store, whose tables take at most `max_bytes` bytes together.
    ///
    /// # Safety
    /// `budget` stays valid and in place as long as the store.
    pub unsafe fn new(nodes: Nodes, budget: &Budget, max_bytes: usize) -> Self {
        let by_size = core::array::from_fn(|_| AtomicPtr::new(ptr::null_mut()));
        Self { by_size, nodes, budget: budget.into(), max_bytes, refused: Tally::new() }
    }

    fn budget(&self) -> &Budget {
        // SAFETY: valid as long as the store, says `new`.
        unsafe { self.budget.as_ref() }
    }

    /// The table with `1 << slots_log2` buckets, made if the domain has not had it. None of its buckets is live. `None`
    /// if there is no memory for it or a limit forbids it.
    ///
    /// Only the holder of the domain's resize lock calls this, and not for a table in use.
    pub fn get_or_make(&self, slots_log2: u32) -> Option<Table<L>> {
        let entry = &self.by_size[slots_log2 as usize];
        let table = entry.load(Ordering::Acquire); // [F]
        if !table.is_null() {
            // SAFETY: an entry that is not null is a table, and is valid until `drop`.
            return Some(unsafe { Table::from_raw(table) });
        }
        let bytes = memory_layout::<L>(1 << slots_log2)?.size();
        // Tables are made with the resize lock held, so no other thread changes the number of this domain's bytes.
        let before = self.bytes();
        let after = before.saturating_add(bytes);
        let limited = limited::<L>(after) - limited::<L>(before);
        if after > self.max_bytes || !self.budget().take(bytes, limited) {
            self.refused.add(1);
            return None;
        }
        // Gives the memory back also if the embedder's memory or topology panics.
        let give_back = Otherwise::new(|| self.budget().give_back(bytes, limited));
        let table = make(slots_log2, self.nodes.memory(), self.nodes.topology().current_node())?;
        give_back.disarm();
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
        let bytes = self.bytes();
        for entry in &self.by_size {
            let table = entry.load(Ordering::Acquire);
            if !table.is_null() {
                // SAFETY: a table that `make` made in this memory; `&mut self` says nobody uses it.
                unsafe { free(Table::<L>::from_raw(table), self.nodes.memory()) };
            }
        }
        self.budget().give_back(bytes, limited::<L>(bytes));
    }
}

/// If a domain's tables take `bytes`: how many of them the system's limit counts.
const fn limited<L: Layout>(bytes: usize) -> usize {
    bytes.saturating_sub(size_of::<Bucket<L>>() << SMALLEST_LOG2)
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
