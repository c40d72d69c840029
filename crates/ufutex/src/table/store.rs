//! The memory of a domain's tables.
//!
//! A domain keeps at most one table per power of two, and frees them only when the domain is dropped. So a stale
//! pointer to a table or a bucket always points to valid memory, and neither reference counts nor grace periods are
//! needed. All tables together take less than twice the memory of the largest.
//!
//! A table is refused, as if there were no memory for it, if it would exceed the domain's limit or the limit for all
//! domains of the system. The system's limit does not count the first bytes of each domain: as many as the smallest
//! table of a policy takes. So no domain can keep another from having a table.
//!
//! As in the kernel, a table lies on the node of the thread that makes it.

use core::alloc::Layout;
use core::ptr::{self, NonNull};

use super::bucket::{Bucket, CountsContention};
use super::budget::{Budget, Bytes};
use super::size::SMALLEST_LOG2;
use super::{MAX_SLOTS_LOG2, Table};
use crate::sync::{AtomicPtr, Ordering, Tally};
use crate::sys::counted::Counted;
use crate::sys::lazy::Lazy;
use crate::sys::platform::PlatformRef;
use crate::sys::topology::{NodeMemory, Nodes};
use crate::sys::unwind::Otherwise;

/// What a system's tables are made of.
#[derive(Clone)]
pub struct Source {
    /// The platform of the buckets.
    pub on: PlatformRef,
    /// Which memory is near.
    pub nodes: Nodes,
    /// The limit on the tables of all domains together.
    pub budget: Counted<Budget>,
}

/// All tables that the domain has ever had, by size, and what is counted of them. A domain has it from its first wait
/// on, if there was memory for it: see [`Tables`](super::tables::Tables).
pub struct TableStore {
    by_size: [AtomicPtr<Bucket>; MAX_SLOTS_LOG2 as usize + 1],
    /// Valid as long as the store.
    source: NonNull<Source>,
    /// The limit on the tables of this domain, in bytes.
    max_bytes: usize,
    /// The number of tables that one of the two limits refused.
    pub refused: Tally,
    /// The number of moves that have ended.
    pub resizes: Tally,
    /// The number of operations that found their bucket locked by another thread.
    pub contended: Tally,
}

// SAFETY: tables are pointers to buckets, which are `Sync` and valid as long as the store, and so is the source.
unsafe impl Send for TableStore {}
// SAFETY: as above. Entries and counters are atomic.
unsafe impl Sync for TableStore {}

impl CountsContention for Lazy<TableStore> {
    #[cold]
    fn count(&self) {
        if let Some(store) = self.get() {
            store.contended.add(1);
        }
    }
}

impl TableStore {
    /// Makes an empty store, whose tables take at most `max_bytes` bytes together.
    ///
    /// # Safety
    /// `source` stays valid and in place as long as the store.
    pub unsafe fn new(source: &Source, max_bytes: usize) -> Self {
        let by_size = core::array::from_fn(|_| AtomicPtr::new(ptr::null_mut()));
        let [refused, resizes, contended] = [(); 3].map(|()| Tally::new());
        Self { by_size, source: source.into(), max_bytes, refused, resizes, contended }
    }

    fn source(&self) -> &Source {
        // SAFETY: the caller of `new` guarantees that it is valid as long as the store.
        unsafe { self.source.as_ref() }
    }

    /// The table with `1 << slots_log2` buckets. It is made if the domain has not had one of this size. None of its
    /// buckets is live. `None` if there is no memory for it or a limit forbids it. `node` says where it is to lie.
    ///
    /// Only the holder of the domain's resize lock calls this, and never for the table in use.
    pub fn get_or_make(&self, slots_log2: u32, node: impl FnOnce() -> u32) -> Option<Table> {
        let entry = &self.by_size[slots_log2 as usize];
        let table = entry.load(Ordering::Acquire); // [F]
        if !table.is_null() {
            // SAFETY: an entry that is not null is a table, and is valid until `drop`.
            return Some(unsafe { Table::from_raw(table) });
        }
        let bytes = memory_layout(1 << slots_log2)?.size();
        // Tables are made with the resize lock held, so no other thread changes the number of this domain's bytes.
        let before = self.bytes();
        let after = before.saturating_add(bytes);
        let limited = limited(after) - limited(before);
        let taken = Bytes { limited, free: bytes - limited };
        if after > self.max_bytes || !self.source().budget.take(taken) {
            self.refused.add(1);
            return None;
        }
        // Gives the bytes back to the budget also if the embedder's memory or topology panics.
        let give_back = Otherwise::new(|| self.source().budget.give_back(taken));
        let Source { on, nodes, .. } = self.source();
        let table = make(slots_log2, *on, nodes.memory(), node())?;
        give_back.disarm();
        entry.store(table.into_raw(), Ordering::Release); // [F]
        Some(table)
    }

    /// All tables in the store.
    pub fn tables(&self) -> impl Iterator<Item = Table> {
        self.by_size.iter().filter_map(|entry| {
            let table = entry.load(Ordering::Acquire); // [F]
            // SAFETY: an entry that is not null is a table, and is valid until `drop`.
            (!table.is_null()).then(|| unsafe { Table::from_raw(table) })
        })
    }

    /// The size of all tables together, in bytes.
    pub fn bytes(&self) -> usize {
        (0..self.by_size.len())
            .filter(|&log2| !self.by_size[log2].load(Ordering::Relaxed).is_null())
            .map(|log2| size_of::<Bucket>() << log2)
            .sum()
    }
}

impl Drop for TableStore {
    fn drop(&mut self) {
        let bytes = self.bytes();
        for entry in &self.by_size {
            let table = entry.load(Ordering::Acquire); // [F]
            if !table.is_null() {
                // SAFETY: `make` made the table in this memory, and `&mut self` means that no thread uses it.
                unsafe { free(Table::from_raw(table), self.source().nodes.memory()) };
            }
        }
        let limited = limited(bytes);
        self.source().budget.give_back(Bytes { limited, free: bytes - limited });
    }
}

/// If a domain's tables take `bytes`: the number of them that the system's limit counts.
const fn limited(bytes: usize) -> usize {
    bytes.saturating_sub(size_of::<Bucket>() << SMALLEST_LOG2)
}

fn memory_layout(slots: usize) -> Option<Layout> {
    Layout::array::<Bucket>(slots).ok()
}

/// Makes a table on `node`, whose buckets are not live, unlocked and empty. [`free`] frees it. `None` if there is no
/// memory.
pub fn make(slots_log2: u32, on: PlatformRef, memory: &dyn NodeMemory, node: u32) -> Option<Table> {
    let slots = 1 << slots_log2;
    let layout = memory_layout(slots)?;
    // The size is not zero: a bucket is not empty, and there is at least one.
    let buckets = NonNull::new(memory.allocate(layout, node).cast::<Bucket>())?;
    // The buckets are all zeroes, so that pages of the table stay untouched until a mover needs them.
    if !on.is_host() {
        // The host is all zeroes.
        for i in 0..slots {
            // SAFETY: within the allocation, which holds buckets and is ours alone.
            unsafe { buckets.add(i).as_mut() }.set_platform(on);
        }
    }

    // SAFETY: the allocation holds that many buckets.
    Some(unsafe { Table::new(buckets, slots_log2) })
}

/// # Safety
/// `make` made `table` with this `memory`, and no thread uses it.
pub unsafe fn free(table: Table, memory: &dyn NodeMemory) {
    let buckets = table.identity().cast::<Bucket>();
    if let Some(layout) = memory_layout(table.slots()) {
        // SAFETY: the caller guarantees it. Buckets need no drop.
        unsafe { memory.free(buckets.cast(), layout) };
    }
}

/// Makes every bucket of a fresh table live.
pub fn make_all_live(table: Table) {
    (0..table.slots()).for_each(|i| table.slot(i).make_live());
}
