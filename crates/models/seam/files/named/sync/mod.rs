//! Atomics, and switches for the faults that real threads can have.

mod backend;
mod barriers;
mod made;
mod mutants;
mod shards;
mod tally;

pub use backend::*;
pub use barriers::{wait_barrier, wake_barrier};
pub use made::Made;
pub use mutants::{Mutant, mutant};
pub use shards::{thread_hint, thread_shard};
pub use tally::Tally;
