//! The clocks of the standard library, for hosts that are neither a Unix nor Windows.

use core::time::Duration;
use std::sync::OnceLock;
use std::time::{Instant, SystemTime};

use super::super::clock::Clock;

/// The time of `clock` since its epoch.
pub fn time(clock: Clock) -> Duration {
    match clock {
        Clock::Monotonic => boottime(),
        Clock::Realtime => SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default(),
    }
}

/// The time since the first use of this clock: the standard library does not say when the machine was started.
pub fn boottime() -> Duration {
    static EPOCH: OnceLock<Instant> = OnceLock::new();
    EPOCH.get_or_init(Instant::now).elapsed()
}
