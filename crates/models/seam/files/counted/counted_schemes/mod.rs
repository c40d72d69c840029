//! Schemes to be compared with `live`: `fixed`, whose table never changes, and those that count references as the kernel's
//! private hash does, `atomic` and `percpu`. None of them moves keys bucket by bucket.

mod atomic;
mod count;
mod cpu_counter;
mod fixed;
mod percpu;
#[cfg(all(feature = "std", target_os = "linux"))]
mod rseq;

pub use atomic::Atomic;
pub use fixed::Fixed;
pub use percpu::PerCpu;

use crate::table::bucket::{Bucket, Guard};
use crate::table::mover::{self, MovePlace};
use crate::table::refs::tables::{Current, Tables};
use crate::table::refs::{Locked, Scheme, Second};

/// Moves every key from `from` to `to`.
fn move_all(from: MovePlace, to: MovePlace) {
    (0..mover::steps(from, to)).for_each(|i| _ = mover::step(from, to, i, mover::IfLocked::Wait));
}

/// Grows the table if a moment without operations comes soon. For schemes that have to wait for such a moment.
fn try_to_grow<S: Scheme>(scheme: &S, tables: &Tables, slots_log2: u32, is_wanted: &dyn Fn() -> bool) {
    let mut tries_left = 100;
    if (1..1 << slots_log2).contains(&tables.slots()) && is_wanted() {
        let _ = scheme.resize(tables, Some(slots_log2), &mut || {
            tries_left -= 1;
            tries_left > 0
        });
    }
}

/// Locks the bucket of `hash` in the table in use.
#[inline(always)]
fn lock_current<'a>(tables: &'a Tables, hash: u32) -> Option<Guard<'a>> {
    if let Some(table) = tables.current_private()
        && let Some(guard) = table.bucket(hash).lock(&tables.store)
    {
        return Some(guard);
    }
    lock_no_private(tables, hash)
}

#[cold]
fn lock_no_private<'a>(tables: &'a Tables, hash: u32) -> Option<Guard<'a>> {
    match tables.current() {
        Current::None => None,
        Current::Global => tables.global.get_or_make().bucket(hash).lock(&tables.store),
        Current::Private(table) => table.bucket(hash).lock(&tables.store),
    }
}

/// Tries to lock the bucket of `hash` in the table in use, which `pin` keeps in place.
fn try_current<'a, S: Scheme>(
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
fn current_proves_empty(tables: &Tables, hash: u32) -> bool {
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
