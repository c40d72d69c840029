//! `precheck`: as `global-lock`, but a chain is walked once without the lock before it is walked with the lock.
//!
//! This is Eric Dumazet's patch: an ID that is taken is skipped without the lock, and an ID that is free is searched
//! twice.

use crate::global_lock::Hash;

/// The hash of `global-lock`, with the walk that comes before the lock.
pub type Checking = Hash<true>;

/// Whether it makes sense to take the lock for this ID: it is free as far as a walk without the lock shows.
#[inline]
pub fn allows<const PRECHECK: bool>(hash: &Hash<PRECHECK>, owner: usize, id: i32) -> bool {
    !hash.is_taken(owner, id)
}
