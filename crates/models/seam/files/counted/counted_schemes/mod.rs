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

use crate::table::mover::{self, MovePlace};
use crate::table::refs::Scheme;
use crate::table::refs::tables::Tables;

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
