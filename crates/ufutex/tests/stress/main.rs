//! Stress tests with many threads in which every wake is accounted for.
//!
//! `UFUTEX_STRESS_SECONDS` sets the approximate total duration. The default is 5.

include!("../common/engine.rs");

#[path = "../common/mod.rs"]
mod common;

mod accounts;
mod handover;
mod workers;

use std::time::Duration;

use common::random::number;

/// The time for a test with this number of parts of the total. Two tests run at the same time.
fn share(parts: u32) -> Duration {
    const ALL_PARTS: u32 = 20;
    Duration::from_secs(number("UFUTEX_STRESS_SECONDS", 5)) * 2 * parts / ALL_PARTS
}
