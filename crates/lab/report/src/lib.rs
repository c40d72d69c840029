//! What the reader gets on stdout: one table a workload with a sentence below, or rows of JSON.

mod figures;
mod neighbour;
pub mod perf;
mod row;
mod schbench;
mod sentence;
pub mod sweep;
pub mod table;
mod timers;

pub use neighbour::neighbour;
pub use row::Row;
pub use schbench::{run as schbench_run, schbench};
pub use timers::TimersRow;

use crate::workloads::{Lab, Memory, Outcome, Timers, Workload};
use anyhow::Result;
use lab_terminal::stderr;
use lab_terminal::stdout::print;
use serde::Serialize;

/// Says on which machine the figures come about; nothing with `--json`.
pub fn opening(lab: &Lab<'_>) -> Result<()> {
    if lab.settings.json {
        return Ok(());
    }
    let distance = lab.distance.map_or_else(
        || "one CPU: what needs two is skipped".to_string(),
        |distance| format!("two CPUs used, {:.0} ns apart ({})", distance.apart_ns, distance.word()),
    );
    print(&format!("# ufutex bench: {} CPUs allowed; {distance}; layout {}", lab.cpus.len(), lab.settings.layout))
}

/// The results of a workload.
pub fn workload(lab: &Lab<'_>, workload: Workload, outcome: &Outcome) -> Result<()> {
    publish(lab, &workload.to_string(), &outcome.rows, &outcome.notes, || {
        format!(
            "{}\n{}",
            table::workload(lab, workload, &outcome.rows),
            sentence::workload(lab, workload, &outcome.rows)
        )
    })
}

/// The results of the size policy's section.
pub fn sizes(lab: &Lab<'_>, outcome: &Outcome) -> Result<()> {
    publish(lab, "hash: the load policy from cold, and explicit sizes", &outcome.rows, &outcome.notes, || {
        format!("{}\n{}", table::sizes(&outcome.rows), sentence::sizes(&outcome.rows))
    })
}

/// The results of `timers`.
pub fn timers(lab: &Lab<'_>, findings: &Timers) -> Result<()> {
    publish(lab, "timers", &findings.rows, &findings.notes, || timers::text(findings))
}

fn publish<R: Serialize>(
    lab: &Lab<'_>,
    title: &str,
    rows: &[R],
    notes: &[String],
    human: impl FnOnce() -> String,
) -> Result<()> {
    if lab.settings.json {
        if !lab.settings.silent {
            for note in notes {
                stderr::say(format_args!("{title}: {note}"));
            }
        }
        let rows = rows.iter().map(serde_json::to_string).collect::<Result<Vec<_>, _>>()?;
        return print(&rows.join("\n"));
    }
    let mut text = format!("\n## {title}\n");
    if !rows.is_empty() {
        text += &format!("{}\n", human());
    }
    for note in notes {
        text += &format!("({note})\n");
    }
    print(text.trim_end_matches('\n'))
}

/// Every figure that the project holds itself to, with its bound.
pub fn figures(lab: &Lab<'_>, memory: &Memory) -> Result<()> {
    let figures = figures::all(&lab.series, memory);
    if lab.settings.json {
        let rows = figures.iter().map(|figure| figure.json().to_string()).collect::<Vec<_>>();
        return print(&rows.join("\n"));
    }
    print(&format!("\n## figures\n{}\n{}", table::figures(&figures), sentence::figures(&figures)))
}
