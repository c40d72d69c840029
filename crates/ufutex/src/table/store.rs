//! The memory of a domain's tables.
//!
//! A domain keeps at most one table per power of two until it is dropped: a stale pointer to a bucket is valid, and all tables
//! take less than twice the memory of the largest. As in the kernel, a table lies on the node of the thread that makes it.
//!
//! A table is refused, as if there were no memory, if it would exceed the limit of the domain or the system. Of each domain, as
//! many bytes as a policy's smallest table takes do not count for the system: no domain can keep another from having a table.

use core::alloc::Layout;
use core::ptr::{self, NonNull};

use super::bucket::Bucket;
use super::size::SMALLEST_LOG2;
use super::{MAX_SLOTS_LOG2, Table};
use crate::sync::{AtomicPtr, AtomicUsize, Ordering, Tally};
use crate::sys::counted::Counted;
use crate::sys::platform::PlatformRef;
use crate::sys::topology::{NodeMemory, Nodes};
use crate::sys::unwind::Otherwise;

#[derive(Clone)]
pub struct Source {
    pub on: PlatformRef,
    pub nodes: Nodes,
    pub budget: Counted<Budget>,
}

/// The table memory of a system's domains: what is limited for all together, and what each may take in any case. Two counters,
/// so that [`taken`](Self::taken) never shows more than may be taken.
pub struct Budget {
    limit: usize,
    limited: AtomicUsize,
    free: AtomicUsize,
}

impl Budget {
    pub fn new(limit: usize) -> Self {
        Self { limit, limited: AtomicUsize::new(0), free: AtomicUsize::new(0) }
    }

    pub fn taken(&self) -> usize {
        self.limited.load(Ordering::Relaxed) + self.free.load(Ordering::Relaxed)
    }

    /// Takes bytes. `false`: the limit does not allow it, and nothing is taken.
    #[allow(deprecated, reason = "`try_update` needs Rust 1.95, and loom's atomics do not have it")]
    fn take(&self, limited: usize, free: usize) -> bool {
        let more = |taken: usize| taken.checked_add(limited).filter(|&taken| taken <= self.limit);
        let is_taken = self.limited.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok();
        if is_taken {
            self.free.fetch_add(free, Ordering::Relaxed);
        }
        is_taken
    }

    fn give_back(&self, limited: usize, free: usize) {
        self.limited.fetch_sub(limited, Ordering::Relaxed);
        self.free.fetch_sub(free, Ordering::Relaxed);
    }
}

pub struct TableStore {
    by_size: [AtomicPtr<Bucket>; MAX_SLOTS_LOG2 as usize + 1],
    source: NonNull<Source>,
    max_bytes: usize,
    /// The number of tables that one of the two limits refused.
    pub refused: Tally,
    pub resizes: Tally,
    /// The number of operations that found their bucket locked by another thread.
    pub contended: Tally,
}

// SAFETY: tables are pointers to buckets, which are `Sync` and valid as long as the store, and so is the source.
unsafe impl Send for TableStore {}
// SAFETY: as above. Entries and counters are atomic.
unsafe impl Sync for TableStore {}

impl TableStore {
    /// # Safety
    /// `source` stays valid and in place as long as the store.
    pub unsafe fn new(source: &Source, max_bytes: usize) -> Self {
        let by_size = core::array::from_fn(|_| AtomicPtr::new(ptr::null_mut()));
        let [refused, resizes, contended] = <[Tally; 3]>::default();
        Self { by_size, source: source.into(), max_bytes, refused, resizes, contended }
    }

    fn source(&self) -> &Source {
        // SAFETY: the caller of `new` guarantees it.
        unsafe { self.source.as_ref() }
    }

    /// The table with `1 << slots_log2` buckets, none of them live. Made on `node` if there has been none of this size. `None`
    /// if memory or a limit forbids it. The caller holds the resize lock, and wants another table than the one in use.
    pub fn get_or_make(&self, slots_log2: u32, node: impl FnOnce() -> u32) -> Option<Table> {
        let entry = &self.by_size[slots_log2 as usize];
        let table = entry.load(Ordering::Acquire); // [F]
        if !table.is_null() {
            // SAFETY: an entry that is not null is a table, and is valid until `drop`.
            return Some(unsafe { Table::from_raw(table) });
        }
        let bytes = memory_layout(1 << slots_log2)?.size();
        // No other thread changes this: the resize lock is held.
        let before = self.bytes();
        let after = before.saturating_add(bytes);
        let limited = limited(after) - limited(before);
        let Source { on, nodes, budget } = self.source();
        if after > self.max_bytes || !budget.take(limited, bytes - limited) {
            self.refused.add(1);
            return None;
        }
        // Also if the embedder's memory or topology panics.
        let give_back = Otherwise::new(|| budget.give_back(limited, bytes - limited));
        let table = make(slots_log2, *on, nodes.memory(), node())?;
        give_back.disarm();
        entry.store(table.into_raw(), Ordering::Release); // [F]
        Some(table)
    }

    pub fn tables(&self) -> impl Iterator<Item = Table> {
        self.by_size.iter().filter_map(|entry| {
            let table = entry.load(Ordering::Acquire); // [F]
            // SAFETY: an entry that is not null is a table, and is valid until `drop`.
            (!table.is_null()).then(|| unsafe { Table::from_raw(table) })
        })
    }

    pub fn bytes(&self) -> usize {
        self.tables().map(|table| size_of::<Bucket>() * table.slots()).sum()
    }
}

impl Drop for TableStore {
    fn drop(&mut self) {
        let Source { nodes, budget, .. } = self.source();
        for table in self.tables() {
            // SAFETY: `make` made the table in this memory, and `&mut self` means that no thread uses it.
            unsafe { free(table, nodes.memory()) };
        }
        let bytes = self.bytes();
        let limited = limited(bytes);
        budget.give_back(limited, bytes - limited);
    }
}

/// How many of the `bytes` of a domain's tables the system's limit counts.
const fn limited(bytes: usize) -> usize {
    bytes.saturating_sub(size_of::<Bucket>() << SMALLEST_LOG2)
}

fn memory_layout(slots: usize) -> Option<Layout> {
    Layout::array::<Bucket>(slots).ok()
}

/// Makes a table on `node`, whose buckets are not live, unlocked and empty. [`free`] frees it. `None` if there is no memory.
#[inline(never)]
pub fn make(slots_log2: u32, on: PlatformRef, memory: &dyn NodeMemory, node: u32) -> Option<Table> {
    let slots = 1 << slots_log2;
    let layout = memory_layout(slots)?;
    let buckets = NonNull::new(memory.allocate(layout, node).cast::<Bucket>())?;
    // Zeroes mean the host, whose pages stay untouched until a mover needs them.
    if !on.is_host() {
        for i in 0..slots {
            // SAFETY: within the allocation, which holds buckets and is ours alone.
            unsafe { buckets.add(i).as_mut() }.on = on;
        }
    }

    // SAFETY: the allocation holds that many buckets.
    Some(unsafe { Table::new(buckets, slots_log2) })
}

/// # Safety
/// `make` made `table` with this `memory`, and no thread uses it.
pub unsafe fn free(table: Table, memory: &dyn NodeMemory) {
    let buckets = table.buckets();
    if let Some(layout) = memory_layout(table.slots()) {
        // SAFETY: the caller guarantees it. Buckets need no drop.
        unsafe { memory.free(buckets.cast(), layout) };
    }
}

pub fn make_all_live(table: Table) {
    (0..table.slots()).for_each(|i| table.slot(i).make_live());
}
