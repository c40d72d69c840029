//! POSIX timers: the tests of [timer-hash] at the sizes that take seconds, not minutes.

use super::{Effort, settings};
use crate::report::TimersRow;
use crate::workloads::{Lab, timers};
use anyhow::Result;

/// What is measured: the flags of `bench`, and the seconds that they get.
const PARTS: [(&str, f64); 5] = [
    ("timers -s --tests create-getoverrun -n 20000,50000,100000 -t 1", 9.0),
    ("timers -s --tests create-getoverrun -n 20000 -t 2", 4.0),
    ("timers -s --tests create-getoverrun -n 20000 -t 63 --targets ours,radix", 6.0),
    ("timers -s --tests create-getoverrun -n 2048 --sparse 512 -t 1", 1.5),
    ("timers -s --tests create-delete -n 100000 -t 1,2", 3.0),
];

/// The same where samples are too short to mean anything.
const QUICK: [(&str, f64); 2] = [
    ("timers -s --tests create-getoverrun -n 500 -t 1 --repeat 1", 0.1),
    ("timers -s --tests create-delete -n 500 -t 1 --repeat 1", 0.1),
];

#[cfg(test)]
pub const ALL_FLAGS: [&str; 7] = [PARTS[0].0, PARTS[1].0, PARTS[2].0, PARTS[3].0, PARTS[4].0, QUICK[0].0, QUICK[1].0];

/// Rows, and what is left out.
pub struct Found {
    /// In order.
    pub rows: Vec<TimersRow>,
    /// What a careful reader asks.
    pub notes: Vec<String>,
}

/// Measures.
pub fn run(silent: bool, effort: Effort) -> Result<Found> {
    let parts: &[(&str, f64)] = if effort.is_quick() { &QUICK } else { &PARTS };
    let mut found = Found { rows: Vec::new(), notes: Vec::new() };
    for (flags, seconds) in parts {
        let mut settings = settings(flags)?;
        settings.runtime_s = Some(effort.seconds(*seconds).max(0.05));
        settings.silent = silent;
        let findings = timers::run(&mut Lab::new(&settings))?;
        found.rows.extend(findings.rows);
        found.notes.extend(findings.notes);
    }
    found.notes.sort();
    found.notes.dedup();
    Ok(found)
}
