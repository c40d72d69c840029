//! Clocks and deadlines.

use core::time::Duration;

/// A clock of clock_gettime(2) that can limit a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clock {
    /// `CLOCK_MONOTONIC`.
    Monotonic,
    /// `CLOCK_REALTIME`. A deadline moves when the clock is set.
    Realtime,
}

/// How long a wait may take.
///
/// A [`Duration`] is a timeout from the start of the wait, and a `std::time::Instant` is a deadline on the monotonic
/// clock:
///
/// ```
/// use std::time::{Duration, Instant};
/// use ufutex::{Timeout, WaitOptions};
///
/// let ms = Duration::from_millis(5);
/// assert_eq!(Timeout::from(ms), Timeout::After(ms));
/// let options = WaitOptions::new().timeout(Instant::now() + ms);
/// # let _ = options;
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timeout {
    /// This long from the start of the wait, by the monotonic clock: futex(2)'s `FUTEX_WAIT`.
    After(Duration),
    /// Until that clock shows this time since its epoch: futex(2)'s `FUTEX_WAIT_BITSET`.
    At(Clock, Duration),
}

/// A timeout that has begun: a point in time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Deadline {
    /// The clock by which `at` is measured.
    pub clock: Clock,
    /// The time since the clock's epoch.
    pub at: Duration,
}

impl From<Duration> for Timeout {
    /// [`Timeout::After`].
    fn from(length: Duration) -> Self {
        Self::After(length)
    }
}

#[cfg(feature = "std")]
impl From<std::time::Instant> for Timeout {
    /// [`Timeout::At`] on [`Clock::Monotonic`], which is the clock that the standard library's instants are read from
    /// on Linux.
    ///
    /// An instant does not show the time that it stands for, so the conversion reads the clock twice. The deadline is
    /// later than the instant by the time between the two readings, and never earlier: some tens of nanoseconds, or
    /// more if the thread is preempted there. An instant that lies before the start of the clock becomes its start. One
    /// too far away becomes [`Duration::MAX`].
    fn from(instant: std::time::Instant) -> Self {
        // The standard library's reading comes first. In the other order the deadline would be too early.
        let read = std::time::Instant::now();
        let now = now(Clock::Monotonic);
        let at = match instant.checked_duration_since(read) {
            Some(ahead) => now.saturating_add(ahead),
            None => now.saturating_sub(read.saturating_duration_since(instant)),
        };
        Self::At(Clock::Monotonic, at)
    }
}

#[cfg(feature = "std")]
impl Timeout {
    /// The point in time at which this timeout ends, if it begins now.
    pub fn begin(self) -> Deadline {
        match self {
            Self::After(length) => {
                Deadline { clock: Clock::Monotonic, at: now(Clock::Monotonic).saturating_add(length) }
            }
            Self::At(clock, at) => Deadline { clock, at },
        }
    }
}

#[cfg(feature = "std")]
impl Deadline {
    /// Whether the clock shows that time or a later one.
    pub fn has_passed(&self) -> bool {
        now(self.clock) >= self.at
    }
}

/// The time of `clock` since its epoch. On virtual cores: the time of the running core, which began with the
/// simulation.
#[cfg(feature = "sim")]
pub fn now(_clock: Clock) -> Duration {
    Duration::from_nanos(ufutex_coherence::current::now_ns())
}

/// The time of `clock` since its epoch.
#[cfg(all(feature = "std", not(feature = "sim")))]
pub fn now(clock: Clock) -> Duration {
    let id = match clock {
        Clock::Monotonic => libc::CLOCK_MONOTONIC,
        Clock::Realtime => libc::CLOCK_REALTIME,
    };
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for the write, and both clocks exist on every Linux.
    unsafe { libc::clock_gettime(id, &mut time) };
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Nanoseconds on a clock that does not go backwards. `None` if the platform has no such clock.
pub fn monotonic_ns() -> Option<u64> {
    #[cfg(feature = "std")]
    return u64::try_from(now(Clock::Monotonic).as_nanos()).ok();
    #[cfg(not(feature = "std"))]
    return None;
}
