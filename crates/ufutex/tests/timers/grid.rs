//! The deadlines of an interval timer, and the number of deadlines that have passed.

use std::time::Duration;

use crate::machine::{HOUR, Info, Machine, now};
use crate::memory::Spec;

/// The deadlines `first`, `first + interval` and so on, on a clock.
#[derive(Clone, Copy)]
pub struct Grid {
    pub clock: i32,
    pub first: Duration,
    pub interval: Duration,
}

impl Grid {
    /// Deadlines of which the first and `count` more have passed. The next one is minutes away, or on a host that has
    /// just booted, as far as the clock allows.
    pub fn long_ago(clock: i32, count: u32) -> Self {
        let now = now(clock);
        let interval = (HOUR / 6).min(now / (count + 1));
        Self { clock, first: now - interval * count - interval / 2, interval }
    }

    pub fn spec(self) -> Spec {
        Spec::every(self.interval, self.first)
    }

    /// The number of deadlines after the first one that have passed by `time`.
    pub fn passed_after_first(self, time: Duration) -> i64 {
        let since = time.checked_sub(self.first).expect("the first has passed");
        (since.as_nanos() / self.interval.as_nanos()) as i64
    }

    /// Takes the pending signal, and checks that its overrun counts the deadlines that had passed by then.
    #[track_caller]
    pub fn take(self, m: &Machine) -> Info {
        let begin = now(self.clock);
        let info = m.take();
        let end = now(self.clock);
        let least = if begin < self.first { 0 } else { self.passed_after_first(begin) };
        let most = self.passed_after_first(end);
        let overrun = i64::from(info.overrun);
        assert!((least..=most).contains(&overrun), "overrun {overrun}, not {least} to {most}");
        assert_eq!(m.overrun(info.id), info.overrun as isize);
        info
    }

    /// Checks that timer_gettime(2) returns the time until the next deadline.
    #[track_caller]
    pub fn is_shown_by(self, m: &Machine, timer: i32) {
        let expiring = Spec::every(self.interval, Duration::from_nanos(1));
        let (begin, spec, end) = m.until("its expiry", || {
            let begin = now(self.clock);
            let spec = m.get(timer);
            // 1 ns means that the timer is due but the turn has not expired it yet.
            (spec != expiring).then(|| (begin, spec, now(self.clock)))
        });
        assert_eq!(spec.interval(), self.interval);
        self.is_next(spec.value(), begin, end);
    }

    /// Checks that `value`, which was read between `begin` and `end`, is the time until the next deadline.
    #[track_caller]
    pub fn is_next(self, value: Duration, begin: Duration, end: Duration) {
        assert!(value > Duration::ZERO && value <= self.interval, "{value:?} with {:?}", self.interval);
        assert!(begin >= self.first, "the first has not passed");
        // A deadline must lie between `begin + value` and `end + value`.
        let nanos = |time: Duration| time.as_nanos();
        let before = (nanos(begin + value - self.first) - 1) / nanos(self.interval);
        let after = nanos(end + value - self.first) / nanos(self.interval);
        assert!(after > before, "{value:?} leads to no deadline");
    }
}
