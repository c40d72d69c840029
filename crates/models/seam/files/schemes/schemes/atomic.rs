//! `atomic`: every operation counts itself in one shared counter, up and then down; a resize waits until it is zero.
//!
//! It stands in for the kernel's first implementation. The counter's cache line is transferred between all CPUs, and a
//! resize needs a moment with no operation in flight, which may never come. Threads that have lost their CPUs in an
//! operation count, too (see `percpu`).

use core::hint::black_box;

use super::count::Count;
use super::current::current_proves_empty;
use super::{Scheme, move_all, note_begin};
use crate::error::Error;
use crate::sys::platform::PlatformRef;
use crate::sys::unwind::Otherwise;
use crate::table::tables::Tables;

/// The scheme with one shared reference count.
pub struct Atomic {
    count: Count,
}

/// A reference, given back when dropped.
#[doc(hidden)]
pub struct Pin<'a>(&'a Count);

impl Drop for Pin<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.look();
        self.0.put();
    }
}

impl Scheme for Atomic {
    type Pin<'a> = Pin<'a>;

    fn new() -> Self {
        Self { count: Count::new() }
    }

    /// Reads what the kernel read before it counted: the table's mask, on the counter's line, and the table.
    #[inline(always)]
    fn look_up(&self, tables: &Tables, _hash: u32) {
        self.count.look();
        black_box(tables.current_private().is_some());
    }

    #[inline(always)]
    fn pin(&self) -> Pin<'_> {
        self.count.look();
        self.count.get();
        Pin(&self.count)
    }

    fn try_pin(&self) -> Option<Pin<'_>> {
        self.count.try_get().then(|| Pin(&self.count))
    }

    #[inline(always)]
    fn proves_empty(&self, tables: &Tables, hash: u32) -> bool {
        // If there are waiters, the operation counts itself only once, when it locks, as in the kernel.
        if !current_proves_empty(tables, hash) {
            return false;
        }
        let _pin = self.pin();
        current_proves_empty(tables, hash)
    }

    fn resize(
        &self,
        tables: &Tables,
        slots_log2: Option<u32>,
        keep_trying: &mut dyn FnMut() -> bool,
    ) -> Result<(), Error> {
        self.count.let_waiters_in();
        let _resize = tables.resize.lock();
        let Some(plan) = tables.plan(slots_log2)? else {
            return Ok(());
        };
        note_begin(plan);
        self.count.remove_bias();
        wait_until_frozen(&self.count, keep_trying)?;
        move_all(plan);
        tables.end(plan);
        self.count.thaw();
        Ok(())
    }
}

/// Waits until no operation is between look-up and unlock. If `keep_trying` returns `false` before that, or panics,
/// operations are let in again and nothing has changed.
pub fn wait_until_frozen(count: &Count, keep_trying: &mut dyn FnMut() -> bool) -> Result<(), Error> {
    let mut round = 0;
    while !count.is_frozen() {
        let let_in = Otherwise::new(|| {
            if !count.restore_bias() {
                count.thaw();
            }
        });
        let keep_trying = keep_trying();
        let_in.disarm();
        if !keep_trying && count.restore_bias() {
            return Err(Error::TimedOut);
        }
        PlatformRef::HOST.wait_a_moment(&mut round);
    }
    Ok(())
}
