//! The host's clocks: those of a Unix, of Windows, or of the standard library.

use core::time::Duration;
#[cfg(not(any(unix, windows)))]
use std::sync::OnceLock;
#[cfg(not(any(unix, windows)))]
use std::time::Instant;
#[cfg(not(unix))]
use std::time::SystemTime;

#[cfg(windows)]
use windows_sys::Win32::System::Performance::{QueryPerformanceCounter, QueryPerformanceFrequency};

use super::super::clock::Clock;

/// The monotonic clock. It stands still while the machine sleeps on Linux, Apple's systems and FreeBSD, and goes on on
/// OpenBSD [bsd-clocks]. `std::time::Instant` is read from it, and condition variables count by it.
#[cfg(all(unix, not(target_vendor = "apple")))]
const MONOTONIC: libc::clockid_t = libc::CLOCK_MONOTONIC;
/// Apple's `CLOCK_MONOTONIC` goes on while the machine sleeps.
#[cfg(target_vendor = "apple")]
const MONOTONIC: libc::clockid_t = libc::CLOCK_UPTIME_RAW;

/// The clock that goes on while the machine sleeps. On systems without one, FreeBSD among them, it is [`MONOTONIC`].
/// FreeBSD's CLOCK_BOOTTIME is another name of a clock that stands still.
#[cfg(any(target_os = "linux", target_os = "android", target_os = "openbsd"))]
const BOOTTIME: libc::clockid_t = libc::CLOCK_BOOTTIME;
#[cfg(target_vendor = "apple")]
const BOOTTIME: libc::clockid_t = libc::CLOCK_MONOTONIC_RAW;
#[cfg(all(unix, not(any(target_os = "linux", target_os = "android", target_os = "openbsd", target_vendor = "apple"))))]
const BOOTTIME: libc::clockid_t = MONOTONIC;

/// The time of `clock` since its epoch.
pub fn time(clock: Clock) -> Duration {
    match clock {
        #[cfg(unix)]
        Clock::Monotonic => read(MONOTONIC),
        #[cfg(unix)]
        Clock::Realtime => read(libc::CLOCK_REALTIME),
        #[cfg(not(unix))]
        Clock::Monotonic => boottime(),
        #[cfg(not(unix))]
        Clock::Realtime => SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default(),
    }
}

/// The time since the machine was started, the time that it slept included.
#[cfg(unix)]
#[cfg_attr(all(target_os = "linux", not(test)), expect(dead_code, reason = "Linux has timerfds"))]
pub fn boottime() -> Duration {
    read(BOOTTIME)
}

/// As on a Unix, by the performance counter. It is also the monotonic clock, as for `std::time::Instant`. Windows also
/// has clocks that stand still while the machine sleeps [windows-api]. QueryUnbiasedInterruptTime advances by up to 16
/// milliseconds at once, so a timeout by it could end too early. QueryUnbiasedInterruptTimePrecise does not, but no
/// `Instant` is read from it.
#[cfg(windows)]
pub fn boottime() -> Duration {
    let (mut ticks, mut frequency) = (0, 0);
    // SAFETY: both calls write to the number that they are given. They do not fail on any Windows that the standard
    // library runs on.
    unsafe {
        QueryPerformanceFrequency(&raw mut frequency);
        QueryPerformanceCounter(&raw mut ticks);
    }
    let (ticks, frequency) = (ticks.unsigned_abs(), frequency.unsigned_abs().max(1));
    let rest = u128::from(ticks % frequency) * 1_000_000_000 / u128::from(frequency);
    Duration::new(ticks / frequency, rest as u32)
}

/// The time since the first use of this clock: the standard library does not say when the machine was started, nor
/// whether its clock goes on while the machine sleeps.
#[cfg(not(any(unix, windows)))]
pub fn boottime() -> Duration {
    static EPOCH: OnceLock<Instant> = OnceLock::new();
    EPOCH.get_or_init(Instant::now).elapsed()
}

#[cfg(unix)]
fn read(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for the write, and these clocks exist.
    unsafe { libc::clock_gettime(clock, &mut time) };
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(all(test, windows))]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn performance_counter_advances_as_an_instant_does() {
        let (instant, before) = (Instant::now(), boottime());
        std::thread::sleep(Duration::from_millis(50));
        let (inner, after) = (instant.elapsed(), boottime());
        let outer = instant.elapsed();
        let passed = after.checked_sub(before).expect("it does not go backwards");
        // An instant is read to a tenth of a microsecond.
        let slack = Duration::from_micros(1);
        assert!(passed + slack >= Duration::from_millis(50) && passed <= outer + slack, "{passed:?} of {outer:?}");
        assert!(inner <= outer);
    }
}
