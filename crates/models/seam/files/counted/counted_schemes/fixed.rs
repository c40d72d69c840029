//! `fixed`: one table for good, which needs nothing to keep it in place. It is the kernel's "immutable" hash, and the
//! oracle for tests.

use crate::error::Error;
use crate::table::bucket::Guard;
use crate::table::refs::current::{current_proves_empty, lock_current, try_current};
use crate::table::refs::sealed::Sealed;
use crate::table::refs::tables::{Current, Tables};
use crate::table::refs::{Locked, Scheme, Second};

/// The scheme whose table never changes once it has been made.
pub struct Fixed;

impl Sealed for Fixed {}

impl Scheme for Fixed {
    const NAME: &'static str = "fixed";
    const MOVES_UNDER_LOAD: bool = false;
    type Pin<'a> = ();

    fn new() -> Self {
        Self
    }

    #[inline(always)]
    fn lock<'a>(&'a self, tables: &'a Tables, hash: u32) -> Option<Locked<'a, Self>> {
        Some(Locked::global(lock_current(tables, hash)?))
    }

    fn try_lock<'a>(&'a self, tables: &'a Tables, hash: u32, first: Option<&Guard<'_>>) -> Second<'a, Self> {
        try_current(tables, hash, first, None)
    }

    #[inline(always)]
    fn proves_empty(&self, tables: &Tables, hash: u32) -> bool {
        current_proves_empty(tables, hash)
    }

    fn resize(
        &self,
        tables: &Tables,
        slots_log2: Option<u32>,
        _keep_trying: &mut dyn FnMut() -> bool,
    ) -> Result<(), Error> {
        let _resize = tables.resize.lock();
        match (tables.current(), slots_log2) {
            (Current::None, _) => tables.plan(slots_log2).map(|_| ()),
            (Current::Global, None) => Ok(()),
            (Current::Private(table), Some(log2)) if table.slots_log2() == log2 => Ok(()),
            _ => Err(Error::Busy),
        }
    }

    fn grow(&self, _tables: &Tables, _slots_log2: u32, _is_wanted: &dyn Fn() -> bool) -> bool {
        true
    }
}
