//! The virtual cores of `sim`: sleeping is in `sys/park.rs`, because the words are not the host's.

use core::time::Duration;

use super::super::clock::Clock;
use ufutex_coherence::current;

/// The time of the running core, which began with the simulation.
pub fn now(_clock: Clock) -> Option<Duration> {
    Some(Duration::from_nanos(current::now_ns()))
}

pub fn yield_now() {
    current::yield_now();
}

pub fn sleep(length: Duration) -> bool {
    current::nap(u64::try_from(length.as_nanos()).unwrap_or(u64::MAX));
    true
}
