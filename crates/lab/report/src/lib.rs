//! What the reader gets: on stdout one table a workload with a sentence below, or rows of JSON; pages; comparisons.
//! Knows results, and measures nothing.

#![cfg_attr(not(test), deny(clippy::print_stderr))]

pub mod compare;
mod figures;
mod neighbour;
pub mod page;
mod perf;
mod schbench;
mod sentence;
mod summary;
mod sweep;
mod table;
mod timers;

use anyhow::Result;
use lab_bench::neighbour::{Neighbour, Pair};
use lab_bench::perf::Line;
use lab_bench::schbench::{Findings as Interval, Schbench};
use lab_bench::{Lab, Memory, Outcome, SchbenchOutcome, Sink, Timers, Workload};
use lab_terminal::stderr;
use lab_terminal::stdout::print;
use serde::Serialize;

/// Prints results as they come, and a summary at the end of a run of several workloads.
#[derive(Default)]
pub struct Printer {
    lines: Vec<summary::Line>,
}

impl Sink for Printer {
    fn opening(&mut self, lab: &Lab<'_>) -> Result<()> {
        opening(lab)
    }

    fn workload(&mut self, lab: &Lab<'_>, workload: Workload, outcome: &Outcome) -> Result<()> {
        self.lines.extend(summary::Line::of(workload, &outcome.rows));
        publish(lab, &workload.to_string(), &outcome.rows, &outcome.notes, || {
            let sentence = sentence::workload(lab, workload, &outcome.rows);
            format!("{}\n{sentence}", table::workload(lab, workload, &outcome.rows))
        })
    }

    fn sizes(&mut self, lab: &Lab<'_>, outcome: &Outcome) -> Result<()> {
        publish(lab, "hash: the load policy from cold, and explicit sizes", &outcome.rows, &outcome.notes, || {
            format!("{}\n{}", table::sizes(&outcome.rows), sentence::sizes(&outcome.rows))
        })
    }

    fn sweep(&mut self, lab: &Lab<'_>, outcome: &Outcome) -> Result<()> {
        sweep::tables(lab, &outcome.rows, &outcome.notes)
    }

    fn timers(&mut self, lab: &Lab<'_>, findings: &Timers) -> Result<()> {
        self.lines.extend(summary::Line::of_timers(&findings.rows));
        publish(lab, "timers", &findings.rows, &findings.notes, || timers::text(findings))
    }

    fn schbench_interval(&mut self, asked: &Schbench, findings: &Interval) {
        if !asked.settings.silent {
            stderr::text(&schbench::run(&asked.plan, findings));
        }
    }

    fn schbench(&mut self, lab: &Lab<'_>, found: &SchbenchOutcome<'_>) -> Result<()> {
        schbench::schbench(lab, found.asked, found.competitors, found.found, found.notes)
    }

    fn neighbour(&mut self, lab: &Lab<'_>, asked: &Neighbour, pairs: &[Pair]) -> Result<()> {
        neighbour::neighbour(lab, asked, pairs)
    }

    fn end(&mut self, lab: &Lab<'_>) -> Result<()> {
        if lab.settings.json || self.lines.len() < 2 {
            return Ok(());
        }
        print(&format!("\n## summary\n{}", summary::text(&self.lines)))
    }

    fn figures(&mut self, lab: &Lab<'_>, memory: &Memory) -> Result<()> {
        figures(lab, memory)
    }

    fn perf(&mut self, line: Line) -> Result<()> {
        perf::perf(line)
    }
}

/// Says on which machine the figures come about; nothing with `--json`.
fn opening(lab: &Lab<'_>) -> Result<()> {
    if lab.settings.json {
        return Ok(());
    }
    let distance = lab.distance.map_or_else(
        || "one CPU: what needs two is skipped".to_string(),
        |distance| format!("two CPUs used, {:.0} ns apart ({})", distance.apart_ns, distance.word()),
    );
    print(&format!("# ufutex bench: {} CPUs allowed; {distance}; layout {}", lab.cpus.len(), lab.settings.layout))
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
fn figures(lab: &Lab<'_>, memory: &Memory) -> Result<()> {
    let figures = figures::all(&lab.series, memory);
    if lab.settings.json {
        let rows = figures.iter().map(|figure| figure.json().to_string()).collect::<Vec<_>>();
        return print(&rows.join("\n"));
    }
    print(&format!("\n## figures\n{}\n{}", table::figures(&figures), sentence::figures(&figures)))
}
