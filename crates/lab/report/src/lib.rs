//! The output: for each workload a table with a sentence below it, or rows of JSON; pages. Reads results
//! and measures nothing.

#![cfg_attr(not(test), deny(clippy::print_stderr))]

mod bench;
mod figures;
mod neighbour;
pub mod page;
mod perf;
mod rows;
mod schbench;
mod summary;

use anyhow::Result;
use bench::{
    crowd, growth, hash, lock_pi, locks, ping_pong, requeue, resize, sizes, sweep, timers, wake_many, wake_parallel,
    wasm,
};
use lab_bench::neighbour::{Neighbour, Pair};
use lab_bench::perf::Line as PerfLine;
use lab_bench::schbench::{Findings as Interval, Schbench};
use lab_bench::workers::ROUGH;
use lab_bench::{Lab, Memory, Outcome, Rows, SchbenchOutcome, Sink, noise};
use lab_terminal::stderr;
use lab_terminal::stdout::print;
use serde::Serialize;
use summary::Line;

/// Prints each workload's results when they come, and a summary after several workloads.
#[derive(Default)]
pub struct Printer {
    lines: Vec<(&'static str, Line)>,
    /// The notes that end with [`ROUGH`], of workloads in the summary.
    rough: Vec<String>,
}

impl Printer {
    /// Prints the rows of a workload, and keeps its line for the summary.
    fn rows<R: Serialize>(
        &mut self,
        (lab, notes): (&Lab<'_>, &[String]),
        title: &'static str,
        rows: &[R],
        text: impl FnOnce(&Lab<'_>, &[R]) -> String,
        line: impl FnOnce(&[R]) -> Option<Line>,
    ) -> Result<()> {
        if let Some(line) = line(rows) {
            self.lines.push((title, line));
            let rough = notes.iter().filter(|note| note.ends_with(ROUGH));
            self.rough.extend(rough.map(|note| format!("({title}: {note})")));
        }
        publish(lab, title, rows, notes, || text(lab, rows))
    }
}

impl Sink for Printer {
    fn opening(&mut self, lab: &Lab<'_>) -> Result<()> {
        opening(lab)
    }

    fn workload(&mut self, lab: &Lab<'_>, outcome: &Outcome) -> Result<()> {
        let with = (lab, outcome.notes.as_slice());
        match &outcome.rows {
            Rows::Hash(rows) => self.rows(with, "hash", rows, hash::hash, hash::hash_line),
            Rows::Sizes(rows) => {
                self.rows(with, "hash: the load policy from a new table, and fixed sizes", rows, sizes::text, |_| None)
            }
            Rows::Sweep(rows) => self.rows(with, "hash, sweep", rows, sweep::text, |_| None),
            Rows::Wake(rows) => self.rows(with, "wake", rows, hash::wake, hash::wake_line),
            Rows::WakeMany(rows) => self.rows(with, "wake", rows, wake_many::text, wake_many::line),
            Rows::Resize(rows) => self.rows(with, "resize", rows, resize::text, resize::line),
            Rows::Growth(rows) => self.rows(with, "growth", rows, growth::text, growth::line),
            Rows::PingPong(rows) => self.rows(with, "ping-pong", rows, ping_pong::text, ping_pong::line),
            Rows::Requeue(rows) => self.rows(with, "requeue", rows, requeue::text, requeue::line),
            Rows::WakeParallel(rows) => {
                self.rows(with, "wake-parallel", rows, wake_parallel::text, wake_parallel::line)
            }
            Rows::LockPi(rows) => self.rows(with, "lock-pi", rows, lock_pi::text, lock_pi::line),
            Rows::Crowd(rows) => self.rows(with, "crowd", rows, crowd::text, crowd::line),
            Rows::Wasm(rows) => self.rows(with, "wasm", rows, wasm::text, wasm::line),
            Rows::Locks(rows) => self.rows(with, "locks", rows, locks::text, locks::line),
            Rows::Timers(rows) => self.rows(with, "timers", rows, timers::text, timers::line),
        }
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
        let rough = self.rough.iter().map(|note| format!("{note}\n")).collect::<String>();
        print(format!("\n## summary\n{}\n{rough}", summary::text(&self.lines)).trim_end_matches('\n'))
    }

    fn figures(&mut self, lab: &Lab<'_>, memory: &Memory) -> Result<()> {
        figures(lab, memory)
    }

    fn perf(&mut self, line: PerfLine) -> Result<()> {
        perf::perf(line)
    }
}

/// Prints the machine on which the run takes place. Prints nothing with `--json`.
fn opening(lab: &Lab<'_>) -> Result<()> {
    if lab.settings.json {
        return Ok(());
    }
    let distance = lab.distance.map_or_else(
        || "one CPU: workloads on two CPUs are left out".to_string(),
        |distance| format!("two CPUs used, {:.0} ns apart ({})", distance.apart_ns, distance.word()),
    );
    let noise = noise::remark(lab).map_or_else(String::new, |noise| format!("\n# {noise}"));
    print(&format!(
        "# ufutex bench: {} CPUs allowed; {distance}; layout {}\n\
         # Times are medians of the rounds. A ratio is the median of the rounds' own ratios, not a quotient of two times here.{noise}",
        lab.cpus.len(),
        lab.settings.layout
    ))
}

/// A row, and the busy loops on each CPU beside which it was measured.
#[derive(Serialize)]
struct WithNoise<'a, R> {
    #[serde(flatten)]
    row: &'a R,
    #[serde(skip_serializing_if = "Option::is_none")]
    noise: Option<usize>,
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
        let with_noise = |row| serde_json::to_string(&WithNoise { row, noise: lab.settings.noise });
        let rows = rows.iter().map(with_noise).collect::<Result<Vec<_>, _>>()?;
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

/// Prints every figure with its bound.
fn figures(lab: &Lab<'_>, memory: &Memory) -> Result<()> {
    let figures = figures::all(&lab.series, memory);
    if lab.settings.json {
        let rows = figures.iter().map(|figure| figure.json().to_string()).collect::<Vec<_>>();
        return print(&rows.join("\n"));
    }
    print(&format!("\n## figures\n{}", figures::text(&figures)))
}
