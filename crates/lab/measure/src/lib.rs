//! How the lab measures: a pool of worker threads, interleaved samples, statistics, the clock, the machine, Ctrl-C.
//! Nothing here knows what is measured.

#![cfg_attr(not(test), deny(clippy::print_stderr))]

pub mod clock;
pub mod interrupt;
pub mod machine;
pub mod names;
pub mod pool;
pub mod sample;
pub mod series;
pub mod stats;
