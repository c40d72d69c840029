//! For each workload of `bench` a module with its table, the sentence below it, and its line of the summary.

pub mod crowd;
pub mod growth;
pub mod hash;
pub mod lock_pi;
pub mod locks;
pub mod ping_pong;
pub mod requeue;
pub mod resize;
pub mod sizes;
pub mod sweep;
pub mod timers;
pub mod wake_many;
pub mod wake_parallel;
pub mod wasm;
