//! The timeout of a wait, and whether it has ended too early or is overdue.

use crate::clock;
use crate::findings::Findings;
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
        let (at, now) = match self.timeout {
            Some(Timeout::At(Clock::Realtime, at)) => {
                let now = world.realtime();
                let is_steady = world.clocks.is_some() && self.setting.is_some() && self.setting == clock::setting();
                if !is_steady {
                    return;
                }
                (at, now)
            }
            _ => (self.deadline().unwrap_or(Duration::MAX), now()),
        };
        if now < at {
            findings.add(
                format_args!("{}: no wait times out before its deadline", world.name),
                format_args!("{at:?} or later"),
                format_args!("{now:?}"),
            );
        }
    }
}
