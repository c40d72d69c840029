//! Windows: WaitOnAddress and WakeByAddress.

use core::num::NonZeroU32;
use core::sync::atomic::AtomicU32;
use core::time::Duration;

use windows_sys::Win32::System::Threading::{INFINITE, WaitOnAddress, WakeByAddressAll, WakeByAddressSingle};

use super::super::clock::Deadline;
use super::super::park::ParkEnd;
use super::any_std::{has_passed, longest_sleep};
pub use super::any_std::{online, sleep, yield_now};

pub fn park(word: &AtomicU32, expected: u32, deadline: Option<&Deadline>, _any_wake: NonZeroU32) -> ParkEnd {
    let length = deadline.map_or(INFINITE, |deadline| milliseconds(longest_sleep(deadline)));
    // SAFETY: both addresses are valid for reads of four bytes during the call, which writes to neither.
    unsafe { WaitOnAddress(word.as_ptr().cast_const().cast(), (&raw const expected).cast(), size_of::<u32>(), length) };
    // It returns for no reason, too, and may sleep a little too short. So the clock decides.
    if deadline.is_some_and(has_passed) { ParkEnd::TimedOut } else { ParkEnd::Awake }
}

/// Rounded up: a thread that woke up before its deadline would only sleep again.
fn milliseconds(length: Duration) -> u32 {
    u32::try_from(length.as_nanos().div_ceil(1_000_000)).unwrap_or(INFINITE).min(INFINITE - 1)
}

/// Wakes one thread, or all if `count` is greater. Windows does not access the word. Returns 0: not known.
pub fn unpark(word: *const AtomicU32, count: usize, _any: NonZeroU32) -> usize {
    match count {
        0 => {}
        // SAFETY: the call does not access the word.
        1 => unsafe { WakeByAddressSingle(word.cast()) },
        // SAFETY: as above.
        _ => unsafe { WakeByAddressAll(word.cast()) },
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn milliseconds_are_rounded_up_and_never_mean_for_ever() {
        let of = |nanoseconds| milliseconds(Duration::from_nanos(nanoseconds));
        assert_eq!([0, 1, 1_000_000, 1_000_001].map(of), [0, 1, 1, 2]);
        assert_eq!(milliseconds(Duration::from_secs(50 * 24 * 3600)), INFINITE - 1);
        assert_eq!(milliseconds(Duration::MAX), INFINITE - 1);
    }
}
