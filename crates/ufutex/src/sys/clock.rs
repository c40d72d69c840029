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
