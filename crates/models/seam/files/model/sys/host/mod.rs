//! A model checker: its threads sleep in `sys/park.rs`, and neither nap nor yield. No model depends on the time.

#[path = "one_node.rs"]
pub(crate) mod nodes;

use core::num::NonZeroU32;
use core::sync::atomic::AtomicU32;
use core::time::Duration;

use super::clock::{Clock, Deadline};
use super::park::ParkEnd;
extern crate std;

pub const WAKES_BY_BITS: bool = false;

pub fn now(_clock: Clock) -> Option<Duration> {
    std::time::SystemTime::UNIX_EPOCH.elapsed().ok()
}

pub fn yield_now() {}

pub fn online() -> usize {
    1
}

pub fn sleep(_length: Duration) -> bool {
    false
}

pub fn park(_word: &AtomicU32, _expected: u32, _deadline: Option<&Deadline>, _bits: NonZeroU32) -> ParkEnd {
    unreachable!("words are a model's")
}

pub fn unpark(_word: *const AtomicU32, _count: usize, _bits: NonZeroU32) -> usize {
    unreachable!("words are a model's")
}
