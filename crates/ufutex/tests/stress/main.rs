//! Many threads at once, with every wake accounted for.
//!
//! `UFUTEX_STRESS_SECONDS` sets how long all of it takes, about; the default is 5.

#[path = "../common/mod.rs"]
mod common;

mod accounts;
mod handover;
mod random;
mod workers;

use std::time::Duration;

/// So many parts of the time that is to be spent on all stress tests. Two run at the same time.
fn share(parts: u32) -> Duration {
    const ALL_PARTS: u32 = 40;
    let seconds = std::env::var("UFUTEX_STRESS_SECONDS").map_or(5, |value| {
        value.parse().unwrap_or_else(|_| panic!("UFUTEX_STRESS_SECONDS={value:?} is no number of seconds"))
    });
    Duration::from_secs(seconds) * 2 * parts / ALL_PARTS
}
