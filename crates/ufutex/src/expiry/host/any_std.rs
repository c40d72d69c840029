//! A host without timerfds: the driver's thread sleeps by the platform until the earliest deadline.

use core::time::Duration;

use super::super::thread::DriverThread;
use super::super::{Base, CpuClock, NEVER};
use super::{NAME, STACK, Shared};
use crate::error::Error;
use crate::lock::Lock;
use crate::sync::Ordering;
use crate::sys::clock::{Clock, Deadline};
use crate::sys::counted::Counted;
use crate::sys::host::any_std::longest;
use crate::sys::host::clocks;
use crate::sys::park::Parker;
use crate::sys::platform::PlatformRef;

/// When the thread has to turn, and the word that it sleeps on.
pub struct Alarm {
    /// By clock; `NEVER` if there is none. Each of them rings once.
    times: Lock<[u64; 4]>,
    /// Counts changes. Read and changed with `times` locked, so the thread sleeps by the times that go with the value it saw.
    changes: Parker,
}

impl Alarm {
    #[allow(clippy::unnecessary_wraps, reason = "as on Linux")]
    pub fn new() -> Result<Self, Error> {
        Ok(Self { times: Lock::new(PlatformRef::HOST, [NEVER; 4]), changes: Parker::new(0) })
    }

    /// Makes [`wait`](Self::wait) return at time `at` of `base`; at once if `at` is 0.
    pub fn set(&self, base: Base, at: u64) {
        let is_earlier = self.times.lock().with(|times| {
            let before = times[base as usize];
            // 0 is a ring that the thread has not heard. It stays: the turn that follows sets all times anew.
            if before != 0 {
                times[base as usize] = at;
            }
            if at < before {
                self.changes.count();
            }
            at < before
        });
        // A thread that wakes up too early asks what is left.
        if is_earlier {
            self.changes.wake_all(PlatformRef::HOST);
        }
    }

    /// Sleeps until a time that was set has passed, on any clock. Forgets the times that have passed.
    pub fn wait(&self) {
        loop {
            // Read first: if the thread loses its CPU after it, it does not sleep for longer.
            let began = clocks::time(Clock::Monotonic);
            let (left, seen) = self.times.lock().with(|times| (left(times, now), self.changes.load(Ordering::Relaxed)));
            if left.is_some_and(|left| left.is_zero()) {
                return;
            }
            let deadline = left.map(|left| Deadline { clock: Clock::Monotonic, at: began.saturating_add(left) });
            let _looks_again = self.changes.park(PlatformRef::HOST, seen, deadline.as_ref());
        }
    }
}

/// How long the thread may sleep: 0 if one of `times` has passed, `None` if none is set. Passed ones become `NEVER`.
fn left(times: &mut [u64; 4], now: impl Fn(Base) -> u64) -> Option<Duration> {
    let mut shortest = None;
    for (&base, at) in Base::ALL.iter().zip(times).filter(|(_, at)| **at != NEVER) {
        let length = Duration::from_nanos(at.saturating_sub(now(base)));
        if length.is_zero() {
            *at = NEVER;
        }
        // The thread sleeps by the monotonic clock. Others may be set meanwhile, or go on while the machine sleeps.
        let length = match base {
            Base::Realtime | Base::Tai => length.min(longest(Clock::Realtime)),
            Base::Monotonic | Base::Boottime => length.min(longest(Clock::Monotonic)),
        };
        shortest = Some(shortest.map_or(length, |other: Duration| other.min(length)));
    }
    shortest
}

pub fn cpus() -> u64 {
    std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u64)
}

/// The time on `base`, in nanoseconds. The host does not say by how much TAI differs from its realtime clock.
pub fn now(base: Base) -> u64 {
    super::super::clocks::nanoseconds(match base {
        Base::Monotonic => clocks::time(Clock::Monotonic),
        Base::Realtime | Base::Tai => clocks::time(Clock::Realtime),
        Base::Boottime => clocks::boottime(),
    })
}

/// `None`: the numbers in a [`CpuClock`] are Linux's.
pub fn cpu_time(_of: CpuClock) -> Option<u64> {
    None
}

/// Starts the driver's thread. Without memory the standard library ends the program.
pub fn spawn(shared: Counted<Shared>) -> Result<(), Error> {
    let name = NAME.to_str().expect("it is ASCII");
    let thread = std::thread::Builder::new().name(name.into()).stack_size(STACK);
    thread.spawn(move || shared.run()).map(drop).map_err(|_| Error::NoMemory)
}

impl DriverThread {
    /// Does nothing: policies, nice values and numbers of CPUs are Linux's.
    #[cfg(not(target_os = "linux"))]
    #[allow(clippy::unused_self, reason = "as on Linux")]
    pub fn apply(&self) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::sync::Arc;
    use std::sync::mpsc::channel;
    use std::time::Instant;

    const MS: u64 = 1_000_000;
    const DAY: u64 = 24 * 3600 * 1000 * MS;

    fn at_100_ms(_base: Base) -> u64 {
        100 * MS
    }

    #[test]
    fn shortest_of_the_times_is_left_and_clocks_that_may_be_set_are_looked_at_often() {
        let left = |times: [u64; 4]| left(&mut times.map(|at| if at == 0 { NEVER } else { at }), at_100_ms);
        assert_eq!(left([0; 4]), None);
        assert_eq!(left([130 * MS, 0, 140 * MS, 0]), Some(Duration::from_millis(30)));
        assert_eq!(left([100 * DAY, 0, 0, 0]), Some(longest(Clock::Monotonic)));
        for setting in [[DAY, DAY, 0, 0], [DAY, 0, 0, DAY]] {
            assert_eq!(left(setting), Some(longest(Clock::Realtime)));
        }
        assert_eq!(left([0, 0, 100 * MS, 101 * MS]), Some(Duration::ZERO));
        assert_eq!(left([101 * MS, 0, 1, 101 * MS]), Some(Duration::ZERO));
    }

    #[test]
    fn a_time_that_has_passed_rings_once() {
        let mut times = [100 * MS, 99 * MS, 101 * MS, NEVER];
        assert_eq!(left(&mut times, at_100_ms), Some(Duration::ZERO));
        assert_eq!(times, [NEVER, NEVER, 101 * MS, NEVER]);
        assert_eq!(left(&mut times, at_100_ms), Some(Duration::from_millis(1)));
    }

    fn alarm(rings: usize) -> (Arc<Alarm>, std::sync::mpsc::Receiver<Instant>) {
        let alarm = Arc::new(Alarm::new().expect("no files"));
        let (send, rung) = channel();
        let theirs = alarm.clone();
        std::thread::spawn(move || {
            for _ in 0..rings {
                theirs.wait();
                let _ = send.send(Instant::now());
            }
        });
        (alarm, rung)
    }

    const PATIENCE: Duration = Duration::from_secs(30);

    #[test]
    fn alarm_rings_when_each_clock_shows_its_time_and_not_before() {
        for base in Base::ALL {
            let (alarm, rung) = alarm(1);
            alarm.set(base, now(base) + DAY);
            let begin = Instant::now();
            alarm.set(base, now(base) + 30 * MS);
            let passed = rung.recv_timeout(PATIENCE).expect("it rings") - begin;
            assert!(passed >= Duration::from_millis(30), "{base:?} rang after {passed:?}");
        }
    }

    #[test]
    fn alarm_that_is_put_off_rings_at_the_later_time_only() {
        let (alarm, rung) = alarm(1);
        let (first, second) = (now(Base::Monotonic) + 20 * MS, now(Base::Monotonic) + 80 * MS);
        alarm.set(Base::Monotonic, first);
        alarm.set(Base::Monotonic, second);
        let is_in_time = now(Base::Monotonic) < first;
        rung.recv_timeout(PATIENCE).expect("it rings");
        assert!(!is_in_time || now(Base::Monotonic) >= second);
    }

    #[test]
    fn every_ring_is_heard() {
        const RINGS: usize = 2000;
        let (alarm, rung) = alarm(RINGS);
        for _ in 0..RINGS {
            alarm.set(Base::Monotonic, 0);
            rung.recv_timeout(PATIENCE).expect("the ring is heard");
        }
    }
}
