//! Where the deadlines of an interval timer lie, and how many of them have passed.

use std::time::Duration;

use crate::machine::{HOUR, Info, Machine, now};
use crate::memory::Spec;

/// The deadlines `first`, `first + interval`, and so on, by a clock.
#[derive(Clone, Copy)]
pub struct Grid {
    pub clock: i32,
    pub first: Duration,
    pub interval: Duration,
}

impl Grid {
    /// Deadlines of which the first and `count` more have passed. The next one is minutes away, or, on a machine that has
    /// only just booted, as far as its clock allows.
    pub fn long_ago(clock: i32, count: u32) -> Self {
        let now = now(clock);
        let interval = (HOUR / 6).min(now / (count + 1));
        Self { clock, first: now - interval * count - interval / 2, interval }
    }

    pub fn spec(self) -> Spec {
        Spec::every(self.interval, self.first)
    }

    /// How many deadlines have passed by `time`, apart from the first.
    pub fn passed_after_first(self, time: Duration) -> i64 {
        let since = time.checked_sub(self.first).expect("the first has passed");
        (since.as_nanos() / self.interval.as_nanos()) as i64
    }

    /// Takes the signal that is pending, and checks that it tells of those deadlines that had passed when it was taken.
    #[track_caller]
    pub fn take(self, m: &Machine) -> Info {
        let begin = now(self.clock);
        let info = m.take();
        let end = now(self.clock);
        let least = if begin < self.first { 0 } else { self.passed_after_first(begin) };
        let most = self.passed_after_first(end);
        let told = i64::from(info.overrun);
        assert!((least..=most).contains(&told), "overrun {told}, not {least} to {most}");
        assert_eq!(m.overrun(info.id), info.overrun as isize);
        info
    }

    /// Checks that what timer_gettime(2) says of the timer is the time until the next deadline.
    #[track_caller]
    pub fn is_told_of(self, m: &Machine, timer: i32) {
        let expiring = Spec::every(self.interval, Duration::from_nanos(1));
        let (begin, spec, end) = m.until("its expiry", || {
            let begin = now(self.clock);
            let spec = m.get(timer);
            // It is due, but whoever turns has not come to it.
            (spec != expiring).then(|| (begin, spec, now(self.clock)))
        });
        assert_eq!(spec.interval(), self.interval);
        self.is_next(spec.value(), begin, end);
    }

    /// Checks that `value`, which was asked for between `begin` and `end`, is the time until the next deadline.
    #[track_caller]
    pub fn is_next(self, value: Duration, begin: Duration, end: Duration) {
        assert!(value > Duration::ZERO && value <= self.interval, "{value:?} with {:?}", self.interval);
        assert!(begin >= self.first, "the first has not passed");
        // One of the deadlines lies between the two times that the next may be at.
        let nanos = |time: Duration| time.as_nanos();
        let before = (nanos(begin + value - self.first) - 1) / nanos(self.interval);
        let after = nanos(end + value - self.first) / nanos(self.interval);
        assert!(after > before, "{value:?} leads to no deadline");
    }
}
