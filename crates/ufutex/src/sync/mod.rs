//! The only directory that names where atomics come from: `core`, a model checker's, or the virtual cores of `ufutex
//! sim`.
//!
//! The packages in `crates/models` compile this crate's source with the feature `loom`, `shuttle` or `sim`, so the
//! models check and measure the code that ships, not a copy of it. All other files import their atomics, cells and
//! barriers from here.

mod backend;
mod barriers;
mod made;
mod mutants;
mod shards;
mod tally;

pub use backend::*;
pub use barriers::{wait_barrier, wake_barrier};
pub use made::Made;
pub(crate) use made::const_unless_modelled;
#[cfg(any(feature = "loom", feature = "shuttle"))]
pub use mutants::with_mutant;
pub use mutants::{Mutant, mutant, relaxed_in};
pub use shards::{MODEL_SHARDS, thread_hint, thread_shard};
pub use tally::Tally;

/// Whether a model checker's atomics are in use.
pub const MODEL: bool = cfg!(any(feature = "loom", feature = "shuttle"));
