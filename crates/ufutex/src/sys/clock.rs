//! The clocks that can limit a wait, and the timeouts and deadlines on them.

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
/// A [`Duration`] is a timeout from the start of the wait, and a `std::time::Instant` a deadline on the monotonic clock:
///
/// ```
/// use std::time::{Duration, Instant};
/// use ufutex::{Timeout, WaitOptions};
///
/// let ms = Duration::from_millis(5);
/// assert_eq!(Timeout::from(ms), Timeout::After(ms));
/// let _ = WaitOptions::new().timeout(Instant::now() + ms);
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
    /// [`Timeout::At`] on [`Clock::Monotonic`], from which instants are read on Linux.
    ///
    /// The deadline is never earlier than the instant. It is later by the time between two readings of the clock, mostly some
    /// tens of nanoseconds. An instant before the clock's start becomes its start; one too far away, [`Duration::MAX`].
    fn from(instant: std::time::Instant) -> Self {
        // The standard library's reading first: otherwise the deadline would be too early.
        let read = std::time::Instant::now();
        let now = super::host::now(Clock::Monotonic).unwrap_or_default();
        let at = match instant.checked_duration_since(read) {
            Some(ahead) => now.saturating_add(ahead),
            None => now.saturating_sub(read.saturating_duration_since(instant)),
        };
        Self::At(Clock::Monotonic, at)
    }
}
