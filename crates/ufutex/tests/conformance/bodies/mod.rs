//! The bodies of the suite, by topic. Each runs on every target; `main.rs` lists them.

pub mod bitset;
pub mod compare;
pub mod handoff;
pub mod order;
pub mod timeout;
pub mod wake;
