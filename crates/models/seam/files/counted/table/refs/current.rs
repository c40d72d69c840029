//! How schemes that never move keys bucket by bucket reach a bucket: in the table in use.

use super::tables::{Current, Tables};
use super::{Locked, Scheme, Second, lock_in};
use crate::table::bucket::{Bucket, Guard};

/// Locks the bucket of `hash` in the table in use.
#[inline(always)]
pub fn lock_current<'a>(tables: &'a Tables, hash: u32) -> Option<Guard<'a>> {
    if let Some(table) = tables.current_private()
        && let Some(guard) = lock_in(tables, table, hash)
    {
        return Some(guard);
    }
    lock_no_private(tables, hash)
}

#[cold]
fn lock_no_private<'a>(tables: &'a Tables, hash: u32) -> Option<Guard<'a>> {
    match tables.current() {
        Current::None => None,
        Current::Global => lock_in(tables, tables.global.get_or_make(), hash),
        Current::Private(table) => lock_in(tables, table, hash),
    }
}

/// Tries to lock the bucket of `hash` in the table in use, which `pin` keeps in place.
pub fn try_current<'a, S: Scheme>(
    tables: &'a Tables,
    hash: u32,
    first: Option<&Guard<'_>>,
    pin: Option<S::Pin<'a>>,
) -> Second<'a, S> {
    let bucket: &Bucket = match tables.current() {
        Current::None => return Second::Busy,
        Current::Global => tables.global.get_or_make().bucket(hash),
        Current::Private(table) => table.bucket(hash),
    };
    match (Second::of(bucket, first), pin) {
        (Second::Locked(Locked { guard, .. }), Some(pin)) => Second::Locked(Locked::pinned(guard, pin)),
        (second, _) => second,
    }
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
