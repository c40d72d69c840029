//! `precheck`: as `global-lock`, but the chain is walked once without the lock before it is walked with it.
//!
//! Eric Dumazet's: an ID that is taken is passed over without the lock; one that is free is looked for twice.

use crate::global_lock::Hash;

/// The hash of `global-lock`, with the walk before.
pub type Checking = Hash<true>;

/// Whether the lock is worth taking for this ID.
#[inline]
pub fn allows<const PRECHECK: bool>(hash: &Hash<PRECHECK>, owner: usize, id: i32) -> bool {
    !hash.is_taken(owner, id)
}
