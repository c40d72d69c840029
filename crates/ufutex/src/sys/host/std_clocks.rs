//! The clocks of hosts that are no Unix: of Windows, and those of the standard library.

use core::time::Duration;
use std::time::SystemTime;

use super::super::clock::Clock;

pub fn time(clock: Clock) -> Duration {
    match clock {
        Clock::Monotonic => boottime(),
        Clock::Realtime => SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default(),
    }
}

/// The time since the machine was started, sleep included, by which `std::time::Instant` counts too. Of the clocks that stand
/// still while the machine sleeps [windows-api], QueryUnbiasedInterruptTime advances by up to 16 milliseconds at once, so a
/// timeout could end too early, and no `Instant` is read from QueryUnbiasedInterruptTimePrecise.
#[cfg(windows)]
pub fn boottime() -> Duration {
    use windows_sys::Win32::System::Performance::{QueryPerformanceCounter, QueryPerformanceFrequency};
    let (mut ticks, mut frequency) = (0, 0);
    // SAFETY: the calls write to these numbers. They do not fail on any Windows that the standard library runs on.
    unsafe {
        QueryPerformanceFrequency(&raw mut frequency);
        QueryPerformanceCounter(&raw mut ticks);
    }
    let (ticks, frequency) = (ticks.unsigned_abs(), frequency.unsigned_abs().max(1));
    let rest = u128::from(ticks % frequency) * 1_000_000_000 / u128::from(frequency);
    Duration::new(ticks / frequency, rest as u32)
}

/// The time since the first use: the standard library does not say when the machine was started.
#[cfg(not(windows))]
pub fn boottime() -> Duration {
    static EPOCH: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    EPOCH.get_or_init(std::time::Instant::now).elapsed()
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
        // An instant is exact to a tenth of a microsecond.
        let slack = Duration::from_micros(1);
        assert!(passed + slack >= Duration::from_millis(50) && passed <= outer + slack, "{passed:?} of {outer:?}");
        assert!(inner <= outer);
    }
}
