//! The clocks that timers and timeouts run by.

use core::time::Duration;

use crate::sys::callbacks::callbacks;
use crate::sys::clock::Clock;

/// A clock that deadlines can be on. On Linux these are the kernel's.
///
/// Elsewhere `Tai` is `Realtime`. On Windows and OpenBSD `Monotonic` goes on while the machine sleeps. On Windows, and on hosts
/// without such a clock, `Boottime` is `Monotonic`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Base {
    /// `CLOCK_MONOTONIC`: never set, stands still while the machine sleeps.
    Monotonic,
    /// `CLOCK_REALTIME`: can be set.
    Realtime,
    /// `CLOCK_BOOTTIME`: never set, goes on while the machine sleeps.
    Boottime,
    /// `CLOCK_TAI`: set along with `CLOCK_REALTIME`, without leap seconds.
    Tai,
}

impl Base {
    pub(crate) const ALL: [Self; 4] = [Self::Monotonic, Self::Realtime, Self::Boottime, Self::Tai];
}

impl From<Clock> for Base {
    fn from(clock: Clock) -> Self {
        match clock {
            Clock::Monotonic => Self::Monotonic,
            Clock::Realtime => Self::Realtime,
        }
    }
}

/// A clock that counts the CPU time of a thread or process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CpuClock {
    /// All threads of the process with this number.
    Process(i32),
    /// The thread with this number.
    Thread(i32),
}

/// The clocks of an embedder.
///
/// `now` and `cpu_time` may be called with a timer, the deadlines of a process or domain, or the driver's wheel locked: they
/// must not block, nor use the driver, timers, or futures with a timeout.
///
/// They may panic. The panic goes to the caller with all locks released and nothing changed: a timer keeps its setting, a
/// notice may be taken again, and a future whose timeout could not begin may be polled again. If the clock of a CPU-time timer
/// panics in a turn, a turn checks the timer again a millisecond later.
pub trait Clocks: Send + Sync {
    /// The time on `base`, since its epoch.
    fn now(&self, base: Base) -> Duration;

    /// The CPU time that `of` has used; `None` if there is no such process, or no such thread in the calling process. Provided:
    /// `None`. A timer that has met `None` never expires, even if a later process or thread gets the number, and setting it
    /// fails with [`Error::NoTask`](crate::Error::NoTask). Before a number is reused, delete or set the timers that name it.
    fn cpu_time(&self, of: CpuClock) -> Option<Duration> {
        let _ = of;
        None
    }

    /// The number of CPUs that a process can use at once: its CPU time may advance that many times as fast as a clock. Called
    /// once. Provided: 1.
    fn cpus(&self) -> usize {
        1
    }

    /// Called when [`Driver::next`](super::Driver::next) may have become earlier, perhaps more often than needed. Called with
    /// nothing locked, by a thread that has armed a deadline, turned the driver, or called
    /// [`Driver::clock_was_set`](super::Driver::clock_was_set). It may use the driver and timers. If it panics, the deadline
    /// stays armed.
    fn changed(&self);
}

callbacks!(Clocks);

/// Converts a time to nanoseconds. As in the kernel, times from the clocks' last second on become [`LAST`]: for ever.
pub(crate) fn nanoseconds(time: Duration) -> u64 {
    if time.as_secs() >= KTIME_MAX / SECOND { LAST } else { LAST.min(time.as_nanos() as u64) }
}

const SECOND: u64 = 1_000_000_000;

const KTIME_MAX: u64 = i64::MAX as u64;

/// The last nanosecond of any clock, after some 292 years: the kernel's `KTIME_MAX`.
pub(crate) const LAST: u64 = KTIME_MAX;
