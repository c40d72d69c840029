//! The only directory that names where atomics, cells and barriers come from. The models in `crates/models` are copies of
//! this crate's source with other files in place of some, most of them here. So they check the code that ships.

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
