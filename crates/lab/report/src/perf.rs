//! perf's output lines.

use anyhow::Result;
use lab_bench::Workload;
use lab_bench::perf::{FirstLine, Line};
use lab_terminal::stdout::print;
use std::io::Write;

/// Prints a piece of perf's output as perf prints it.
pub fn perf(line: Line) -> Result<()> {
    match line {
        Line::Begin { workload, is_one_of_all, first_line } => begin(workload, is_one_of_all, first_line),
        Line::End { is_one_of_all: true } => print_empty_line(),
        Line::End { is_one_of_all: false } => Ok(()),
        Line::Summary(text) => print(&format!("Run summary [PID {}]: {text}\n", std::process::id())),
        Line::Text(text) => print(&text),
        Line::Averaged { silent, rates, runtime } => {
            let before = if silent { "" } else { "\n" };
            let (mean, percent, seconds) = (rates.mean, rates.percent(), runtime.as_secs());
            print(&format!("{before}Averaged {mean:.0} operations/sec (+- {percent:.2}%), total secs = {seconds}"))
        }
        Line::Hashing { asked: 0, .. } => print("Futex hashing: global hash"),
        Line::Hashing { asked, have, immutable } => {
            let immutable = if immutable { " (immutable)" } else { "" };
            print(&format!("Futex hashing: {} hash buckets{immutable}", have.unwrap_or(asked)))
        }
    }
}

/// With several benchmarks perf's first line is worded differently, and does not depend on the format.
fn begin(workload: Workload, is_one_of_all: bool, first_line: FirstLine) -> Result<()> {
    match first_line {
        _ if is_one_of_all => print(&format!("# Running futex/{workload} benchmark...")),
        FirstLine::Shown => print(&format!("# Running 'futex/{workload}' benchmark:")),
        FirstLine::Left => Ok(()),
    }
}

fn print_empty_line() -> Result<()> {
    writeln!(std::io::stdout())?;
    Ok(())
}
