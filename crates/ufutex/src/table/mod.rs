//! Hash tables of buckets: the `Table` type, the memory of a domain's tables, and (in `live`) how operations reach a
//! bucket while tables change.

pub(crate) mod bucket;
pub(crate) mod globals;
pub(crate) mod hash;
pub(crate) mod list;
pub(crate) mod live;
pub(crate) mod mover;
pub(crate) mod node;
mod ring;
pub(crate) mod size;
pub(crate) mod store;
pub(crate) mod tables;
mod tree;

use core::ops::RangeInclusive;
use core::ptr::NonNull;

use bucket::Bucket;

pub const MAX_SLOTS_LOG2: u32 = 24;
pub const MIN_SLOTS_LOG2: u32 = 1;
const HASH_BITS: u32 = 32;

/// A table: the address of its buckets and, in that address's low bits, the shift that turns a hash into an index. One word, so
/// that an operation gets both with one load and they always belong together.
#[derive(Clone, Copy)]
pub struct Table(NonNull<Bucket>);

// SAFETY: a table is used as a shared reference to its buckets, which are `Sync`.
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

/// Buckets are aligned to 64 bytes, so six bits are free.
const TAG: usize = 63;

impl Table {
    /// # Safety
    /// `buckets` points to `1 << slots_log2` buckets that stay valid as long as a copy of this table is used.
    pub unsafe fn new(buckets: NonNull<Bucket>, slots_log2: u32) -> Self {
        debug_assert!((MIN_SLOTS_LOG2..=MAX_SLOTS_LOG2).contains(&slots_log2));
        Self(buckets.map_addr(|a| a | (HASH_BITS - slots_log2) as usize))
    }

    /// # Safety
    /// `raw` came from `into_raw` of a table that is still valid.
    #[inline(always)]
    pub unsafe fn from_raw(raw: *mut Bucket) -> Self {
        // SAFETY: `raw` is the word of a table, so it is not null.
        Self(unsafe { NonNull::new_unchecked(raw) })
    }

    pub fn into_raw(self) -> *mut Bucket {
        self.0.as_ptr()
    }

    #[inline(always)]
    pub fn buckets(self) -> *mut Bucket {
        self.0.as_ptr().map_addr(|a| a & !TAG)
    }

    #[inline(always)]
    pub fn slots_log2(self) -> u32 {
        HASH_BITS - (self.0.addr().get() & TAG) as u32
    }

    #[inline(always)]
    pub fn slots(self) -> usize {
        1 << self.slots_log2()
    }

    #[inline(always)]
    pub fn bucket<'a>(self, hash: u32) -> &'a Bucket {
        self.slot(self.index(hash))
    }

    #[inline(always)]
    pub fn index(self, hash: u32) -> usize {
        // `wrapping_shr` counts modulo 32, so the upper bits of the address have no effect. The tag is from 8 to 31.
        hash.wrapping_shr(self.0.addr().get() as u32) as usize
    }

    pub fn hashes_of(self, index: usize) -> RangeInclusive<u32> {
        let first = (index as u32) << (HASH_BITS - self.slots_log2());
        first..=self.last_hash_with(first)
    }

    /// The highest hash that has the same bucket as `hash`.
    pub fn last_hash_with(self, hash: u32) -> u32 {
        hash | u32::MAX >> self.slots_log2()
    }

    #[inline(always)]
    pub fn slot<'a>(self, index: usize) -> &'a Bucket {
        debug_assert!(index < self.slots());
        // SAFETY: the caller of `new` promised that the buckets stay valid. None is at null, which the arithmetic hides.
        unsafe {
            let bucket = self.buckets().add(index);
            core::hint::assert_unchecked(!bucket.is_null());
            &*bucket
        }
    }
}
