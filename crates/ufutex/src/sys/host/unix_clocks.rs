//! The clocks of any Unix.

use core::time::Duration;

use super::super::clock::Clock;

/// It stands still while the machine sleeps on Linux, Apple's systems and FreeBSD, and goes on on OpenBSD [bsd-clocks].
/// `std::time::Instant` and condition variables use it.
#[cfg(not(target_vendor = "apple"))]
const MONOTONIC: libc::clockid_t = libc::CLOCK_MONOTONIC;
/// Apple's `CLOCK_MONOTONIC` goes on while the machine sleeps.
#[cfg(target_vendor = "apple")]
const MONOTONIC: libc::clockid_t = libc::CLOCK_UPTIME_RAW;

/// The clock that goes on while the machine sleeps, if there is one: FreeBSD's CLOCK_BOOTTIME stands still.
#[cfg(any(target_os = "linux", target_os = "android", target_os = "openbsd"))]
const BOOTTIME: libc::clockid_t = libc::CLOCK_BOOTTIME;
#[cfg(target_vendor = "apple")]
const BOOTTIME: libc::clockid_t = libc::CLOCK_MONOTONIC_RAW;
#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "openbsd", target_vendor = "apple")))]
const BOOTTIME: libc::clockid_t = MONOTONIC;

pub fn time(clock: Clock) -> Duration {
    read(match clock {
        Clock::Monotonic => MONOTONIC,
        Clock::Realtime => libc::CLOCK_REALTIME,
    })
}

#[cfg_attr(all(target_os = "linux", not(test)), expect(dead_code, reason = "Linux has timerfds"))]
pub fn boottime() -> Duration {
    read(BOOTTIME)
}

fn read(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for the write, and these clocks exist.
    unsafe { libc::clock_gettime(clock, &mut time) };
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}
