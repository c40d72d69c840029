//! POSIX timers: the tests of [timer-hash], at the sizes that take seconds and not minutes.

use super::Effort;
use crate::timers::{Row, Timers};
use crate::workload::{Workload, plain};
use crate::{Lab, Settings};
use anyhow::Result;
use lab_targets::timers::{Name, Test};
use lab_values::List;
use strum::VariantArray;

/// One run of `bench timers`.
struct Part {
    test: Test,
    targets: &'static [Name],
    timers: &'static [usize],
    threads: &'static [usize],
    sparse: Option<usize>,
    seconds: f64,
}

const ALL: &[Name] = Name::VARIANTS;

const PARTS: [Part; 5] = [
    Part { timers: &[20_000, 50_000, 100_000], seconds: 9.0, ..Part::new(Test::CreateGetoverrun) },
    Part { timers: &[20_000], threads: &[2], seconds: 4.0, ..Part::new(Test::CreateGetoverrun) },
    Part {
        targets: &[Name::Ours, Name::Radix],
        timers: &[20_000],
        threads: &[63],
        seconds: 6.0,
        ..Part::new(Test::CreateGetoverrun)
    },
    Part { timers: &[2048], sparse: Some(512), seconds: 1.5, ..Part::new(Test::CreateGetoverrun) },
    Part { timers: &[100_000], threads: &[1, 2], seconds: 3.0, ..Part::new(Test::CreateDelete) },
];

/// The parts of a quick report: samples too short to be meaningful, and one round each.
const QUICK: [Part; 2] = [
    Part { timers: &[500], seconds: 0.1, ..Part::new(Test::CreateGetoverrun) },
    Part { timers: &[500], seconds: 0.1, ..Part::new(Test::CreateDelete) },
];

impl Part {
    const fn new(test: Test) -> Part {
        Part { test, targets: ALL, timers: &[], threads: &[1], sparse: None, seconds: 0.0 }
    }

    fn settings(&self, silent: bool, effort: Effort) -> Settings {
        Settings {
            runtime_s: Some(effort.seconds(self.seconds).max(0.05)),
            repeat: effort.is_quick().then_some(1),
            silent,
            ..Settings::default()
        }
    }

    fn asked(&self) -> Timers {
        Timers {
            targets: Some(List(self.targets.to_vec())),
            tests: Some(List(vec![self.test])),
            number: Some(List(self.timers.to_vec())),
            threads: Some(List(self.threads.to_vec())),
            sparse: self.sparse,
            ..plain()
        }
    }
}

/// The rows, and what was left out.
pub struct Found {
    /// The rows, in order.
    pub rows: Vec<Row>,
    /// Notes on what was left out and on disturbed samples.
    pub notes: Vec<String>,
}

/// Measures all parts.
pub fn run(silent: bool, effort: Effort) -> Result<Found> {
    let parts: &[Part] = if effort.is_quick() { &QUICK } else { &PARTS };
    let mut found = Found { rows: Vec::new(), notes: Vec::new() };
    for part in parts {
        let settings = part.settings(silent, effort);
        found.rows.extend(part.asked().run(&mut Lab::new(&settings), &mut found.notes)?);
    }
    found.notes.sort();
    found.notes.dedup();
    Ok(found)
}
