//! Atomics of virtual cores.

mod backend;
mod barriers;
mod made;
mod shards;
mod tally;

pub use backend::*;
pub use barriers::{wait_barrier, wake_barrier};
pub use made::Made;
pub use shards::{thread_hint, thread_shard};
pub use tally::Tally;
