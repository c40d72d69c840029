//! The table that a domain uses: the words that every operation reads, and the store behind them.

use core::ptr::{NonNull, null_mut, without_provenance_mut};

use crate::error::Error;
use crate::lock::Lock;
use crate::sync::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use crate::sys::lazy::Lazy;
use crate::sys::platform::PlatformRef;
use crate::sys::probe::probe;
use crate::table::bucket::{Bucket, Guard};
use crate::table::globals::Globals;
use crate::table::mover::Move;
use crate::table::size::SMALLEST_LOG2;
use crate::table::store::{TableStore, make_all_live};
use crate::table::{MAX_SLOTS_LOG2, Table};

/// Where a domain's keys are looked up.
#[derive(Clone, Copy)]
pub enum Current {
    /// Nowhere: there is no table, because no thread has waited yet.
    None,
    Global,
    Private(Table),
}

const LINE: usize = 64;

/// The word for [`Current::Global`]. The address of every table is higher.
const GLOBAL: usize = 1;

impl Current {
    #[inline(always)]
    fn from_raw(raw: *mut Bucket) -> Self {
        match raw.addr() {
            0 => Self::None,
            GLOBAL => Self::Global,
            // SAFETY: the words of `Tables` hold only these two values and tables of its store.
            _ => Self::Private(unsafe { Table::from_raw(raw) }),
        }
    }

    fn into_raw(self) -> *mut Bucket {
        match self {
            Self::None => null_mut(),
            Self::Global => without_provenance_mut(GLOBAL),
            Self::Private(table) => table.into_raw(),
        }
    }
}

/// One of the namespace's tables, which is looked up when the domain first needs it.
pub struct Global {
    /// Null until then.
    table: AtomicPtr<Bucket>,
    globals: NonNull<Globals>,
}

impl Global {
    /// # Safety
    /// `globals` stays valid and in place as long as the result.
    pub unsafe fn new(globals: &Globals) -> Self {
        Self { table: AtomicPtr::new(null_mut()), globals: globals.into() }
    }

    fn globals(&self) -> &Globals {
        // SAFETY: the caller of `new` promised it.
        unsafe { self.globals.as_ref() }
    }

    /// The table. `None` if no domain has needed it yet: then no waiter is queued there.
    #[inline(always)]
    pub fn get(&self) -> Option<Table> {
        self.known().or_else(|| self.find())
    }

    #[cold]
    fn find(&self) -> Option<Table> {
        let globals = self.globals();
        globals.on(globals.current_node()).map(|table| self.settle_on(table))
    }

    /// The table, if the domain has looked it up. If not, none of its private keys is there. Calls no embedder's code.
    #[inline(always)]
    pub fn known(&self) -> Option<Table> {
        let raw = self.table.load(Ordering::Acquire); // [F]
        // SAFETY: `settle_on` stores only tables of the system.
        (!raw.is_null()).then(|| unsafe { Table::from_raw(raw) })
    }

    /// Whether `bucket`, in which a key of `hash` is or would be queued, is in this table.
    pub fn contains(&self, bucket: &Bucket, hash: u32) -> bool {
        self.known().is_some_and(|table| core::ptr::eq(bucket, table.bucket(hash)))
    }

    #[inline(always)]
    pub fn get_or_make(&self) -> Table {
        self.known().unwrap_or_else(|| self.make())
    }

    #[cold]
    fn make(&self) -> Table {
        let globals = self.globals();
        self.settle_on(globals.on_or_make(globals.current_node()))
    }

    /// Makes `table` the domain's for good, if no other is.
    fn settle_on(&self, table: Table) -> Table {
        let settled = self.table.compare_exchange(null_mut(), table.into_raw(), Ordering::Release, Ordering::Acquire); // [F]
        // SAFETY: as in `known`.
        settled.err().map_or(table, |raw| unsafe { Table::from_raw(raw) })
    }
}

/// The tables of a domain. Every operation reads the first fields; only a resize writes them.
#[repr(C)]
pub struct Tables {
    current: AtomicPtr<Bucket>,
    /// The table that keys are being moved to; `None` if no move is going on.
    next: AtomicPtr<Bucket>,
    moves: AtomicUsize,
    /// Has this domain's private keys while it has no table of its own. Never changes, and its buckets are always live.
    pub global: Global,
    /// The space of this domain's private keys in the global table.
    pub space: u64,
    /// Made by the first wait, or a request for slots. If there is no memory then, the domain uses the global table, until a
    /// request for slots succeeds.
    pub store: Lazy<TableStore>,
    /// The limit on this domain's tables, in lines: four bytes keep a domain small.
    max_lines: u32,
    /// One more than the first step that the last pass of a move left, because a bucket was locked. `0` means none, or
    /// that a pass is going on. A hint, written under `resize` and read without it.
    left_step: AtomicU32,
    /// Held by a thread that changes `current` or `next`, and so by every mover. `None` if no move is going on.
    pub resize: Lock<Option<Progress>>,
}

#[derive(Default)]
pub struct Progress {
    pub next_step: u32,
    /// Whether this pass has left a step for the next one.
    pub skipped: bool,
}

// SAFETY: a table is a pointer to buckets, which are `Sync` and valid as long as the store.
unsafe impl Send for Tables {}
// SAFETY: as for `Send`. The words are atomic and the rest is behind `resize`.
unsafe impl Sync for Tables {}

impl Tables {
    /// The bytes that operations read: up to `space`.
    pub const READ_BYTES: usize = core::mem::offset_of!(Self, space) + size_of::<u64>();

    /// # Safety
    /// What `global` refers to stays valid as long as the result.
    pub unsafe fn new(on: PlatformRef, global: Global, space: u64, max_bytes: usize) -> Self {
        Self {
            current: AtomicPtr::new(Current::None.into_raw()),
            next: AtomicPtr::new(null_mut()),
            moves: AtomicUsize::new(0),
            global,
            space,
            store: Lazy::new(),
            max_lines: u32::try_from(max_bytes / LINE).unwrap_or(u32::MAX),
            left_step: AtomicU32::new(0),
            resize: Lock::new(on.for_long_locks(), None),
        }
    }

    pub fn platform(&self) -> PlatformRef {
        self.global.globals().source.on
    }

    #[inline(never)]
    pub fn store_or_make(&self) -> Result<&TableStore, Error> {
        let max_bytes = (self.max_lines as usize).saturating_mul(LINE);
        // SAFETY: the caller of `new` promised that the namespace's tables, and so their source, stay valid.
        self.store.get_or_make(|| Ok(unsafe { TableStore::new(&self.global.globals().source, max_bytes) }))
    }

    #[inline(always)]
    pub fn current(&self) -> Current {
        Current::from_raw(self.current.load(Ordering::Acquire)) // [F]
    }

    pub fn has_none(&self) -> bool {
        matches!(self.current(), Current::None)
    }

    /// The private table in use, for the first attempt: one comparison rules out every other case.
    #[inline(always)]
    pub fn current_private(&self) -> Option<Table> {
        let raw = self.current.load(Ordering::Acquire); // [F]
        // SAFETY: a word above the two sentinels is a table of the store.
        (raw.addr() > GLOBAL).then(|| unsafe { Table::from_raw(raw) })
    }

    #[inline(always)]
    pub fn next(&self) -> Current {
        Current::from_raw(self.next.load(Ordering::Acquire)) // [F]
    }

    /// The number of moves that have begun. If it is the same before and after, no key has left and come back in between.
    pub fn moves(&self) -> usize {
        self.moves.load(Ordering::Acquire) // [G]
    }

    #[inline(always)]
    pub fn moving(&self) -> bool {
        !self.next.load(Ordering::Relaxed).is_null()
    }

    /// Locks the bucket of `hash` in `table`, if it is live there. Measured: with this line in its caller instead of this
    /// function, a wait takes an instruction more.
    #[inline(always)]
    pub fn lock_in<'a>(&self, table: Table, hash: u32) -> Option<Guard<'a>> {
        table.bucket(hash).lock(&self.store)
    }

    /// The last hash of the range that begins with `hash` and whose keys are all in `bucket`. The caller holds the
    /// bucket's lock, and has found `bucket` to be the live bucket of `hash`.
    ///
    /// A move from or to the global table moves the hashes of one private bucket at a time, so while a private table is in use,
    /// the range for a global bucket ends where the private bucket of `hash` ends.
    pub fn last_hash_of(&self, bucket: &Bucket, hash: u32) -> u32 {
        let is_in = |table: &Table| core::ptr::eq(table.bucket(hash), bucket);
        let table = self.current_private().filter(is_in).or_else(|| self.store.get()?.tables().find(is_in));
        if let Some(table) = table {
            return table.last_hash_with(hash);
        }
        // `next` is read first: see `publish`. If keys of the bucket have been moved away, or not yet here, one of the two
        // words names the private table. While the caller holds the lock, no key queued in the range comes or goes.
        let [next, current] = [self.next(), self.current()].map(|place| match place {
            Current::Private(table) => Some(table),
            Current::None | Current::Global => None,
        });
        let tables = [next, current, self.global.known()].into_iter().flatten();
        tables.map(|table| table.last_hash_with(hash)).min().unwrap_or(u32::MAX)
    }

    pub fn announce(&self, planned: Move) {
        probe!(resize_begin, planned.from.slots(), planned.to.slots());
        self.next.store(planned.target().into_raw(), Ordering::Release); // [F]
        let moves = self.moves.load(Ordering::Relaxed);
        self.moves.store(moves.wrapping_add(1), Ordering::Release); // [G]
    }

    /// Makes `to`, which has all keys, the table in use. A thread that reads `next` as `None`, and then `current`, sees `to`.
    pub fn publish(&self, to: Current) {
        self.current.store(to.into_raw(), Ordering::Release); // [F]
        self.next.store(null_mut(), Ordering::Release); // [F]
    }

    pub fn end(&self, planned: Move) {
        self.publish(planned.target());
        if let Some(store) = self.store.get() {
            store.resizes.add(1);
        }
        probe!(resize_end, planned.from.slots(), planned.to.slots());
    }

    /// `None` if there is nothing to move.
    fn move_between(&self, from: Current, to: Current) -> Option<Move> {
        let [is_from_global, is_to_global] = [from, to].map(|place| matches!(place, Current::Global));
        let (from, to) = match (from, to) {
            (Current::Private(from), Current::Private(to)) => (from, to),
            (Current::Private(from), Current::Global) => (from, self.global.get_or_make()),
            (Current::Global, Current::Private(to)) => (self.global.get_or_make(), to),
            (Current::Global, Current::Global) | (Current::None, _) | (_, Current::None) => return None,
        };
        Some(Move { from, to, is_from_global, is_to_global, space: self.space })
    }

    /// Makes the first table, with `1 << slots_log2` buckets, if there is none. If that is refused, makes the smallest table of
    /// a policy, whose memory no other domain can take, and at last uses the global table, which `None` means at once.
    #[cold]
    pub fn make_first(&self, slots_log2: Option<u32>) {
        let _resize = self.resize.lock();
        if !self.has_none() {
            return;
        }
        let smallest = slots_log2.filter(|&log2| log2 > SMALLEST_LOG2).and(Some(SMALLEST_LOG2));
        let sizes = [slots_log2.map(|log2| log2.min(MAX_SLOTS_LOG2)), smallest, None];
        let _first = sizes.into_iter().find(|&size| self.plan(size).is_ok());
    }

    /// Plans a move of all keys to a table with `1 << slots_log2` buckets, or to the global table for `None`. The caller holds
    /// `resize`. `None` if nothing needs to be moved: the wanted table is in use, or now is because there was none.
    pub fn plan(&self, slots_log2: Option<u32>) -> Result<Option<Move>, Error> {
        let current = self.current();
        let to = match (slots_log2, current) {
            (None, Current::Global) => return Ok(None),
            (Some(log2), Current::Private(table)) if table.slots_log2() == log2 => return Ok(None),
            (None, _) => Current::Global,
            (Some(log2), _) => Current::Private(
                self.store_or_make()?
                    .get_or_make(log2, || self.global.globals().current_node())
                    .ok_or(Error::NoMemory)?,
            ),
        };
        let planned = self.move_between(current, to);
        if planned.is_none() {
            match to {
                Current::Private(table) => make_all_live(table),
                Current::Global | Current::None => _ = self.global.get_or_make(),
            }
            self.publish(to);
        }
        Ok(planned)
    }

    pub fn left_step(&self) -> Option<usize> {
        self.left_step.load(Ordering::Relaxed).checked_sub(1).map(|step| step as usize)
    }

    /// `None` while a pass goes on.
    pub fn note_left_step(&self, step: Option<usize>) {
        self.left_step.store(step.map_or(0, |step| step as u32 + 1), Ordering::Relaxed);
    }

    /// The move that is going on. Without `resize` the result is a hint: it may mix two moves.
    pub fn going_on(&self) -> Option<Move> {
        self.move_between(self.current(), self.next())
    }

    pub fn slots(&self) -> usize {
        self.current_private().map_or(0, Table::slots)
    }
}
