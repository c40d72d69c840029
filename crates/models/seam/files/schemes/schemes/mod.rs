//! Schemes to be compared with the engine's: how an operation reaches the bucket of its key while the table may be
//! replaced. `fixed` never replaces it; `atomic` and `percpu` count references, as the kernel's private hash does. None of
//! them moves keys bucket by bucket.

pub mod atomic;
pub mod chosen;
mod count;
mod cpu_counter;
mod current;
pub mod fixed;
pub mod percpu;
#[cfg(all(feature = "std", target_os = "linux"))]
mod rseq;

pub use current::{lock_current, try_current};

use crate::error::Error;
use crate::sys::probe::probe;
use crate::table::mover::{IfLocked, Move};
use crate::table::tables::Tables;

/// How operations reach their bucket in a domain.
pub trait Scheme: Send + Sync {
    /// Keeps the table in place between look-up and unlock.
    type Pin<'a>
    where
        Self: 'a;

    /// For a domain without a table.
    fn new() -> Self;

    /// Whether the engine's own way is used, and none of the other functions is called.
    #[inline(always)]
    fn is_live(&self) -> bool {
        false
    }

    /// Names the memory that all operations touch, for the statistics of transfers on virtual cores.
    fn name(&self) {}

    /// What an operation reads before it counts itself.
    #[inline(always)]
    fn look_up(&self, _tables: &Tables, _hash: u32) {}

    /// Keeps the table in place; waits while it is being replaced.
    fn pin(&self) -> Self::Pin<'_>;

    /// As [`pin`](Self::pin), but does not wait.
    fn try_pin(&self) -> Option<Self::Pin<'_>>;

    /// Whether a lock-free emptiness check proves that no waiter is queued for `hash`. The caller has executed [B].
    fn proves_empty(&self, tables: &Tables, hash: u32) -> bool;

    /// Moves all waiters to a table with `1 << slots_log2` buckets, or to the global table for `None`, and returns when
    /// they are there. If `keep_trying` returns `false` before the move has begun, nothing changes, and the result is
    /// `TimedOut`.
    fn resize(
        &self,
        tables: &Tables,
        slots_log2: Option<u32>,
        keep_trying: &mut dyn FnMut() -> bool,
    ) -> Result<(), Error>;
}

/// Fires the probe for the beginning of a move.
fn note_begin(plan: Move) {
    probe!(resize_begin, plan.from.slots(), plan.to.slots());
}

/// Moves every key.
fn move_all(plan: Move) {
    (0..plan.steps()).for_each(|i| _ = plan.step(i, IfLocked::Wait));
}
