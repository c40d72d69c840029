//! What the workloads with cases have in common: they run one case after another, and print a row for each, or a table of all.

use anyhow::Result;
use lab_measure::interrupt;
use lab_terminal::progress::Progress;
use lab_terminal::stdout;
use ufutex_coherence::Topology;

/// How a workload prints.
#[derive(Clone, Copy)]
pub struct Output {
    /// Whether to show no progress.
    pub silent: bool,
    /// Whether to print rows of JSON.
    pub json: bool,
}

/// Runs all cases. With `--json` prints the row of each. Otherwise prints `opening` and the table of what the cases are in a
/// table. After Ctrl-C, what is complete.
pub fn print<C, L>(
    workload: &str,
    opening: &str,
    cases: &[C],
    Output { silent, json }: Output,
    run: impl Fn(&C) -> Result<(String, L)>,
    table: impl FnOnce(Vec<L>) -> String,
) -> Result<()> {
    if !json {
        stdout::print(opening)?;
    }
    let progress = Progress::start(&format!("sim {workload}: {} runs", cases.len()), cases.len(), silent || json);
    let mut lines = Vec::new();
    for case in cases.iter().take_while(|_| !interrupt::requested()) {
        let (row, line) = match run(case) {
            // The run was cut short. Those before it are valid.
            Err(_) if interrupt::requested() => break,
            found => found?,
        };
        progress.step();
        if json {
            stdout::print(&row)?;
        }
        lines.push(line);
    }
    drop(progress);
    interrupt::report_incomplete(lines.len(), cases.len(), "runs");
    if json || lines.is_empty() {
        return Ok(());
    }
    stdout::print(&format!("\n{}", table(lines)))
}

/// The first line of a workload's table.
pub fn opening(workload: &str, topology: &Topology, what: &str) -> String {
    let Topology { name, description, .. } = topology;
    format!("# ufutex sim {workload}: modelled, not measured; on {name} ({description}); {what}")
}
