//! Prints each workload's results when they come: a table, or rows of JSON.

use crate::summary::{self, Line};
use crate::workers::ROUGH;
use crate::workload::Workload;
use crate::{Lab, noise, words};
use anyhow::Result;
use lab_terminal::stderr;
use lab_terminal::stdout::print;
use serde::Serialize;
use std::collections::BTreeSet;

/// Prints results, and a summary after several workloads.
#[derive(Default)]
pub struct Printer {
    lines: Vec<(&'static str, Line)>,
    /// The notes that end with [`ROUGH`], of workloads in the summary.
    rough: Vec<String>,
    /// The words of the tables that have been explained.
    explained: BTreeSet<String>,
}

/// A row, and the busy loops on each CPU beside which it was measured.
#[derive(Serialize)]
struct WithNoise<'a, R> {
    #[serde(flatten)]
    row: &'a R,
    #[serde(skip_serializing_if = "Option::is_none")]
    noise: Option<usize>,
}

impl Printer {
    /// Prints the rows of a workload, and keeps its line for the summary.
    pub fn print<W: Workload>(&mut self, lab: &Lab<'_>, workload: &W, rows: &[W::Row], notes: &[String]) -> Result<()> {
        let title = workload.title();
        if let Some(line) = workload.line(rows) {
            self.lines.push((title, line));
            let rough = notes.iter().filter(|note| note.ends_with(ROUGH));
            self.rough.extend(rough.map(|note| format!("({title}: {note})")));
        }
        if lab.settings.json {
            if !lab.settings.silent {
                for note in notes {
                    stderr::say(format_args!("{title}: {note}"));
                }
            }
            let with_noise = |row| serde_json::to_string(&WithNoise { row, noise: lab.settings.noise });
            let rows = rows.iter().map(with_noise).collect::<Result<Vec<_>, _>>()?;
            print(&rows.join("\n"))?;
        } else {
            let mut text = format!("\n## {title}\n");
            if !rows.is_empty() {
                let tables = workload.text(rows);
                text += &format!("{tables}\n{}", words::lines(&tables, &mut self.explained));
            }
            for note in notes {
                text += &format!("({note})\n");
            }
            print(text.trim_end_matches('\n'))?;
        }
        Ok(())
    }

    /// Prints the summary when all workloads have ended.
    pub fn end(&self, lab: &Lab<'_>) -> Result<()> {
        if lab.settings.json || self.lines.len() < 2 {
            return Ok(());
        }
        let rough = self.rough.iter().map(|note| format!("{note}\n")).collect::<String>();
        print(format!("\n## summary\n{}\n{rough}", summary::text(&self.lines)).trim_end_matches('\n'))
    }
}

/// Prints the machine on which the run takes place. Prints nothing with `--json`.
pub fn opening(lab: &Lab<'_>) -> Result<()> {
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
