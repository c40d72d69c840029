//! How schemes that never move keys bucket by bucket reach a bucket: in the table in use.

use crate::table::bucket::{Bucket, Guard};
use crate::table::by_live::Second;
use crate::table::tables::{Current, Tables};

/// Locks the bucket of `hash` in the table in use.
#[inline(always)]
pub fn lock_current(tables: &Tables, hash: u32) -> Option<Guard<'_>> {
    if let Some(table) = tables.current_private()
        && let Some(guard) = tables.lock_in(table, hash)
    {
        return Some(guard);
    }
    lock_no_private(tables, hash)
}

#[cold]
fn lock_no_private(tables: &Tables, hash: u32) -> Option<Guard<'_>> {
    match tables.current() {
        Current::None => None,
        Current::Global => tables.lock_in(tables.global.get_or_make(), hash),
        Current::Private(table) => tables.lock_in(table, hash),
    }
}

/// Tries to lock the bucket of `hash` in the table in use.
pub fn try_current<'t>(tables: &'t Tables, hash: u32, first: Option<&Bucket>) -> Second<'t> {
    let bucket: &Bucket = match tables.current() {
        Current::None => return Second::Busy,
        Current::Global => tables.global.get_or_make().bucket(hash),
        Current::Private(table) => table.bucket(hash),
    };
    Second::of(bucket, first)
}

/// Checks the bucket of `hash` in the table in use for emptiness.
#[inline(always)]
pub fn current_proves_empty(tables: &Tables, hash: u32) -> bool {
    match tables.current_private() {
        Some(table) => table.bucket(hash).proves_empty(),
        None => no_private_proves_empty(tables, hash),
    }
}

#[cold]
fn no_private_proves_empty(tables: &Tables, hash: u32) -> bool {
    match tables.current() {
        Current::None => true,
        Current::Global => tables.global.get_or_make().bucket(hash).proves_empty(),
        Current::Private(table) => table.bucket(hash).proves_empty(),
    }
}
