//! No platform: a thread that would sleep spins, and there is no clock. Futures and custom waiters need no platform.

use core::num::NonZeroU32;
use core::sync::atomic::AtomicU32;
use core::time::Duration;

use super::super::clock::Deadline;
use super::super::park::ParkEnd;

pub fn park(_word: &AtomicU32, _expected: u32, _deadline: Option<&Deadline>, _bits: NonZeroU32) -> ParkEnd {
    crate::sync::spin_loop();
    ParkEnd::Awake
}

pub fn unpark(_word: *const AtomicU32, _count: usize, _bits: NonZeroU32) -> usize {
    0
}

pub fn yield_now() {}

pub fn online() -> usize {
    1
}

pub fn sleep(_length: Duration) -> bool {
    false
}
