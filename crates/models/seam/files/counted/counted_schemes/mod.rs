//! Schemes that count references, as the kernel's private hash does: `atomic` and `percpu`.
//!
//! They are here to be compared with `live`.

mod atomic;
mod count;
mod cpu_counter;
mod percpu;
#[cfg(all(feature = "std", target_os = "linux"))]
mod rseq;

pub use atomic::Atomic;
pub use percpu::PerCpu;

use crate::table::mover::{self, Place};
use crate::table::refs::Scheme;
use crate::table::refs::tables::Tables;

/// Moves every key from `from` to `to`.
fn move_all(from: Place, to: Place) {
    (0..mover::steps(from, to)).for_each(|i| _ = mover::step(from, to, i, mover::Locked::Wait));
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
