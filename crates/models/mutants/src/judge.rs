//! Runs the tests against one mutant.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::mutant::{Kind, Mutant};
use crate::process::End;
use crate::suites::{self, Test};

/// What became of a mutant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Outcome {
    /// A test failed.
    Killed,
    /// A test did not end in time.
    Hung,
    /// All tests passed that reach it and may notice it.
    Lived,
    /// The tests took too long together. Those that were run passed.
    OutOfTime,
    /// No test that may notice it reaches it.
    Unreached,
}

impl Outcome {
    pub const ALL: [Self; 5] = [Self::Killed, Self::Hung, Self::Lived, Self::OutOfTime, Self::Unreached];

    pub fn name(self) -> &'static str {
        match self {
            Self::Killed => "killed",
            Self::Hung => "hung",
            Self::Lived => "lived",
            Self::OutOfTime => "out of time",
            Self::Unreached => "unreached",
        }
    }

    /// Whether a test noticed the mutant.
    pub fn is_noticed(self) -> bool {
        matches!(self, Self::Killed | Self::Hung)
    }
}

/// A mutant and what became of it: a line of the results.
#[derive(Clone, PartialEq, Debug)]
pub struct Verdict {
    pub id: String,
    pub kind: Kind,
    pub line: u64,
    pub outcome: Outcome,
    /// The test that noticed it.
    pub by: String,
    /// How many tests were run.
    pub tests: u64,
}

impl Verdict {
    pub fn to_json(&self) -> String {
        let (kind, outcome) = (self.kind.name(), self.outcome.name());
        json!({ "id": self.id, "kind": kind, "line": self.line, "outcome": outcome, "by": self.by, "tests": self.tests })
            .to_string()
    }

    /// `None` if the line was cut off.
    pub fn from_json(line: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(line).ok()?;
        let (kind, outcome) = (value["kind"].as_str()?, value["outcome"].as_str()?);
        Some(Self {
            id: value["id"].as_str()?.to_string(),
            kind: Kind::ALL.into_iter().find(|known| known.name() == kind)?,
            line: value["line"].as_u64()?,
            outcome: Outcome::ALL.into_iter().find(|known| known.name() == outcome)?,
            by: value["by"].as_str()?.to_string(),
            tests: value["tests"].as_u64()?,
        })
    }
}

/// Runs the tests that may notice mutant `number`, until one does or `limit` has passed.
pub fn judge(tests: &[Test], number: usize, mutant: &Mutant, limit: Duration) -> Verdict {
    let noticing = suites::that_may_notice(tests, number, mutant);
    let mut verdict = Verdict {
        id: mutant.id.clone(),
        kind: mutant.kind,
        line: mutant.line as u64,
        outcome: if noticing.is_empty() { Outcome::Unreached } else { Outcome::Lived },
        by: String::new(),
        tests: 0,
    };
    let began = Instant::now();
    for test in noticing {
        if began.elapsed() > limit {
            verdict.outcome = Outcome::OutOfTime;
            break;
        }
        verdict.tests += 1;
        let end = test.run(Some(number));
        // A test that fails now and then, or on a busy machine, proves nothing.
        if end != End::Passed && test.run(None) == End::Passed {
            verdict.outcome = if end == End::Hung { Outcome::Hung } else { Outcome::Killed };
            verdict.by = format!("{} {}", test.suite, test.name);
            break;
        }
    }
    verdict
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_read_as_it_was_written() {
        let verdict = Verdict {
            id: "lock/state.rs f condition flips `\"a\"`".to_string(),
            kind: Kind::Condition,
            line: 7,
            outcome: Outcome::OutOfTime,
            by: "ufutex lib it".to_string(),
            tests: 3,
        };
        let line = verdict.to_json();
        assert_eq!(Verdict::from_json(&line), Some(verdict));
        assert_eq!(Verdict::from_json(&line[..line.len() - 1]), None, "it was cut off");
    }
}
