//! perf's own lines.

use crate::settings::FirstLine;
use crate::workloads::{PerfStats, Workload};
use anyhow::Result;
use lab_terminal::stdout::print;
use std::io::Write;
use std::time::Duration;

/// Which benchmark runs; before several of them perf says it in other words, whatever the format.
pub fn begin(workload: Workload, is_one_of_all: bool, first_line: FirstLine) -> Result<()> {
    match first_line {
        _ if is_one_of_all => print(&format!("# Running futex/{workload} benchmark...")),
        FirstLine::Shown => print(&format!("# Running 'futex/{workload}' benchmark:")),
        FirstLine::Left => Ok(()),
    }
}

/// After one of several.
pub fn end(is_one_of_all: bool) -> Result<()> {
    if is_one_of_all { print_empty_line() } else { Ok(()) }
}

/// What is to be done, and an empty line.
pub fn summary(text: &str) -> Result<()> {
    print(&format!("Run summary [PID {}]: {text}\n", std::process::id()))
}

/// One thread's, or one run's.
pub fn line(text: &str) -> Result<()> {
    print(text)
}

/// The last line of those that run for a time.
pub fn averaged(silent: bool, rates: &PerfStats, runtime: Duration) -> Result<()> {
    let before = if silent { "" } else { "\n" };
    let (mean, percent, seconds) = (rates.mean, rates.percent(), runtime.as_secs());
    print(&format!("{before}Averaged {mean:.0} operations/sec (+- {percent:.2}%), total secs = {seconds}"))
}

/// perf 6.16 and later say how many buckets there were; older ones have no `-b`.
pub fn hashing(asked: usize, have: Option<usize>, immutable: bool) -> Result<()> {
    let immutable = if immutable { " (immutable)" } else { "" };
    match (asked, have) {
        (0, _) => print("Futex hashing: global hash"),
        (asked, have) => print(&format!("Futex hashing: {} hash buckets{immutable}", have.unwrap_or(asked))),
    }
}

fn print_empty_line() -> Result<()> {
    writeln!(std::io::stdout())?;
    Ok(())
}
