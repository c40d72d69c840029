//! The timeout of a wait, and whether it has ended too early or is overdue.

use crate::clock;
use crate::findings::{Findings, exactly};
use crate::random::Random;
use crate::watched;
use crate::world::World;
use std::time::Duration;
use ufutex::platform::{Clock, Host, Platform};
use ufutex::{Timeout, WaitOptions};

/// CLOCK_MONOTONIC, which is the host's in both worlds.
pub fn now() -> Duration {
    Host::now(Clock::Monotonic)
}

/// See the top of this file.
pub struct Limit {
    timeout: Option<Timeout>,
    begun: Duration,
    /// See [`clock::setting`].
    setting: Option<u64>,
    /// When it was first noticed that the wait should have ended: by the clock of [`watched`].
    late_since: Option<Duration>,
}

impl Limit {
    pub fn none() -> Self {
        Self { timeout: None, begun: now(), setting: None, late_since: None }
    }

    /// A timeout of up to `longest`, on any clock.
    pub fn within(longest: Duration, world: &World, random: &mut Random) -> Self {
        let begun = now();
        let length = Duration::from_nanos(random.below(longest.as_nanos() as u64 + 1));
        let timeout = match random.below(4) {
            0 => Timeout::At(Clock::Monotonic, begun + length),
            1 => Timeout::At(Clock::Realtime, world.realtime() + length),
            _ => Timeout::After(length),
        };
        Self { timeout: Some(timeout), begun, setting: clock::setting(), late_since: None }
    }

    pub fn timeout(&self) -> Option<Timeout> {
        self.timeout
    }

    pub fn options(&self) -> WaitOptions {
        WaitOptions::new().maybe_timeout(self.timeout)
    }

    /// The deadline on CLOCK_MONOTONIC. `None` if there is none, or it is on a clock that can be set.
    fn deadline(&self) -> Option<Duration> {
        match self.timeout? {
            Timeout::After(length) => Some(self.begun + length),
            Timeout::At(Clock::Monotonic, at) => Some(at),
            Timeout::At(Clock::Realtime, _) => None,
        }
    }

    /// The clock of the timeout, its deadline there, and what the clock shows. `None` if there is no timeout.
    fn clock(&self, world: &World) -> Option<(&'static str, Duration, Duration)> {
        Some(match self.timeout? {
            Timeout::At(Clock::Realtime, at) => ("CLOCK_REALTIME", at, world.realtime()),
            Timeout::At(Clock::Monotonic, at) => ("CLOCK_MONOTONIC", at, now()),
            Timeout::After(length) => ("CLOCK_MONOTONIC", self.begun + length, now()),
        })
    }

    /// By how much the wait is late, for a finding.
    pub fn lateness(&self, world: &World) -> String {
        let Some((clock, at, now)) = self.clock(world) else { return "a wait without a timeout".to_string() };
        let late = now.saturating_sub(at);
        format!("{clock} shows {}, {} after the deadline, and the wait has not ended", exactly(now), exactly(late))
    }

    /// Whether the deadline has passed, or may pass at any time because its clock jumps.
    pub fn is_due(&self) -> bool {
        self.timeout.is_some() && self.deadline().is_none_or(|deadline| now() >= deadline)
    }

    /// Whether the wait should have ended long ago.
    pub fn is_overdue(&mut self, world: &World) -> bool {
        if self.deadline().is_none_or(|deadline| now() <= deadline) {
            return false;
        }
        // The clock may go on between two readings: the earlier one is read first.
        let since = *self.late_since.get_or_insert_with(watched::now);
        watched::now().saturating_sub(since) > world.flags.patience
    }

    /// Whether it is known when the deadline passes. The host's own CLOCK_REALTIME may be set by others.
    pub fn is_known(&self, world: &World) -> bool {
        world.clocks.is_some() || !matches!(self.timeout, Some(Timeout::At(Clock::Realtime, _)))
    }

    /// Checks that a wait that has just timed out was due.
    pub fn check_passed(&self, world: &World, findings: &Findings) {
        let law = format_args!("{}: no wait times out before its deadline", world.name);
        let Some((clock, at, now)) = self.clock(world) else {
            return findings.add(law, "no timeout, for the wait has none", "a timeout");
        };
        if matches!(self.timeout, Some(Timeout::At(Clock::Realtime, _))) {
            // `clock` has read CLOCK_REALTIME. Its answer counts if nobody has set that clock since the wait began.
            let is_steady = world.clocks.is_some() && self.setting.is_some() && self.setting == clock::setting();
            if !is_steady {
                return;
            }
        }
        if now < at {
            let expected = format!("when {clock} shows {} or more", exactly(at));
            findings.add(law, expected, format_args!("it shows {}, {} less", exactly(now), exactly(at - now)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::Flags;
    use std::sync::Arc;

    /// The seconds behind the first comma.
    fn second_number(text: &str) -> f64 {
        let number = text.split_once(", ").and_then(|(_, rest)| rest.split(' ').next());
        number.and_then(|number| number.parse().ok()).expect("a number")
    }

    #[test]
    fn findings_name_the_clock_what_it_shows_and_the_difference() {
        let findings = Arc::new(Findings::default());
        let [host, jumping] = World::both(&findings, &Arc::new(Flags::default())).expect("there is memory");
        let limit = |timeout| Limit { timeout: Some(timeout), ..Limit::none() };
        let late = limit(Timeout::At(Clock::Realtime, Duration::from_secs(1))).lateness(&jumping);
        assert!(late.starts_with("CLOCK_REALTIME shows ") && late.contains(" s after the deadline, and"), "{late}");
        let late = limit(Timeout::After(Duration::ZERO)).lateness(&host);
        assert!(late.starts_with("CLOCK_MONOTONIC shows ") && late.contains(" s after the deadline, and"), "{late}");
        // By the time of the call, however long that took.
        assert!((0.0..60.0).contains(&second_number(&late)), "{late}");
        limit(Timeout::At(Clock::Monotonic, now() + Duration::from_secs(60))).check_passed(&host, &findings);
        let early = &findings.kept()[0];
        assert!(early.expected.starts_with("when CLOCK_MONOTONIC shows "), "{}", early.expected);
        assert!(early.found.starts_with("it shows ") && early.found.ends_with(" s less"), "{}", early.found);
        assert!((0.1..=60.0).contains(&second_number(&early.found)), "{}", early.found);
    }
}
