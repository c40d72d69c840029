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
