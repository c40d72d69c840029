//! A model checker's atomics, and the faults that a model must catch.

mod backend;
mod barriers;
mod made;
mod mutants;
mod shards;
mod tally;

pub use backend::*;
pub use barriers::{wait_barrier, wake_barrier};
pub use made::Made;
pub use mutants::{Mutant, mutant, with_mutant};
pub use shards::{MODEL_SHARDS, thread_hint, thread_shard};
pub use tally::Tally;
