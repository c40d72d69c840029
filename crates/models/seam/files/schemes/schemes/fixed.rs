//! `fixed`: one table for good, which needs nothing to keep it in place. It is the kernel's "immutable" hash, and the
//! oracle for tests.

use super::Scheme;
use super::current::current_proves_empty;
use crate::error::Error;
use crate::table::tables::{Current, Tables};

/// Nothing needs to be kept in place.
pub type Pin<'a> = ();

/// The scheme whose table never changes once it has been made.
pub struct Fixed;

impl Scheme for Fixed {
    type Pin<'a> = Pin<'a>;

    fn new() -> Self {
        Self
    }

    #[inline(always)]
    fn pin(&self) {}

    fn try_pin(&self) -> Option<()> {
        Some(())
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
}
