//! How many programs a test runs, and which.

use std::time::{Duration, Instant};

/// The programs of a test: by number, until its time is up.
pub struct Rounds {
    name: &'static str,
    /// The seed of all programs.
    pub seed: u64,
    /// The only program to run, if one was asked for.
    only: Option<u64>,
    begin: Instant,
    length: Duration,
    reported: Duration,
    next: u64,
}

/// How often a test says how far it is.
const REPORT: Duration = Duration::from_secs(10);

/// A number from an environment variable.
///
/// # Panics
/// If the variable is set to something else.
#[must_use]
pub fn number(variable: &str) -> Option<u64> {
    let value = std::env::var(variable).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{variable}={value:?} is no number")))
}

impl Rounds {
    /// The programs of the test `name`, for `milliseconds` unless the environment sets another length.
    #[must_use]
    pub fn of(name: &'static str, milliseconds: u64) -> Self {
        let length = number("UFUTEX_LINEAR_SECONDS").map_or(Duration::from_millis(milliseconds), Duration::from_secs);
        let (seed, only) = (number("UFUTEX_LINEAR_SEED").unwrap_or(1), number("UFUTEX_LINEAR_PROGRAM"));
        Self { name, seed, only, begin: Instant::now(), length, reported: Duration::ZERO, next: 0 }
    }

    /// How to run a program again.
    #[must_use]
    pub fn again(&self, program: u64) -> String {
        let Self { name, seed, .. } = self;
        format!("UFUTEX_LINEAR_SEED={seed} UFUTEX_LINEAR_PROGRAM={program} cargo test -p ufutex-linear {name}")
    }
}

impl Iterator for Rounds {
    type Item = u64;

    /// The number of the next program.
    fn next(&mut self) -> Option<u64> {
        let elapsed = self.begin.elapsed();
        let is_over = elapsed >= self.length && self.next > 0;
        if is_over || elapsed >= self.reported + REPORT {
            self.reported = elapsed;
            println!("{}: {} programs in {:.1} s, seed {}", self.name, self.next, elapsed.as_secs_f64(), self.seed);
        }
        let number = self.only.unwrap_or(self.next);
        self.next += 1;
        (!is_over).then_some(number)
    }
}
