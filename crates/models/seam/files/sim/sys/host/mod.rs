//! The virtual cores: words to sleep on are in `sys/park.rs`, because they are not the host's.

#[path = "one_node.rs"]
pub(crate) mod nodes;

use core::num::NonZeroU32;
use core::sync::atomic::AtomicU32;
use core::time::Duration;

use super::clock::{Clock, Deadline};
use super::park::ParkEnd;
use ufutex_coherence::current;

pub const WAKES_BY_BITS: bool = false;

/// The time of the running core, which began with the simulation.
pub fn now(_clock: Clock) -> Option<Duration> {
    Some(Duration::from_nanos(current::now_ns()))
}

pub fn yield_now() {
    current::yield_now();
}

pub fn online() -> usize {
    1
}

pub fn sleep(length: Duration) -> bool {
    current::nap(u64::try_from(length.as_nanos()).unwrap_or(u64::MAX));
    true
}

pub fn park(_word: &AtomicU32, _expected: u32, _deadline: Option<&Deadline>, _bits: NonZeroU32) -> ParkEnd {
    unreachable!("words are virtual")
}

pub fn unpark(_word: *const AtomicU32, _count: usize, _bits: NonZeroU32) -> usize {
    unreachable!("words are virtual")
}
