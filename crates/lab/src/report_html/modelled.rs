//! What the model of `ufutex sim` says, as the report needs it. Never mixed with what was measured.

use super::measure::Effort;
use crate::cli::{self, Command};
use crate::interrupt;
use crate::progress::Progress;
use crate::sim::{self, Row, seeds};
use anyhow::{Result, anyhow};
use serde::Serialize;

/// What is run, by the flags of `ufutex sim`: schemes by cores, then layouts on all cores.
const RUNS: [&str; 2] = [
    "hash --silent --topology epyc-9d64 --cores 1,4,16,88 --schemes live,fixed,percpu,atomic -b 1024",
    "hash --silent --topology epyc-9d64 --cores 88 --schemes fixed --layout packed,split -b 1024",
];

/// The same where the figures need not mean anything.
const QUICK: [&str; 1] =
    ["hash --silent --topology epyc-9d64 --cores 1,4 --schemes live,fixed,percpu,atomic -b 64 -f 64"];

/// All of it.
#[derive(Default)]
pub struct Modelled {
    /// Throughput by cores.
    pub cores: Vec<Cores>,
    /// The published comparisons.
    pub seeds: Vec<Side>,
    /// What a careful reader asks.
    pub notes: Vec<String>,
}

/// One run of a scheme on so many virtual cores.
#[derive(Clone, Debug, Serialize)]
pub struct Cores {
    /// Always `sim hash`.
    pub workload: &'static str,
    /// Whose latencies.
    pub topology: String,
    /// As on the command line of `sim`.
    pub scheme: String,
    /// As on the command line of `sim`.
    pub layout: String,
    /// Of the table.
    pub buckets: usize,
    /// Virtual.
    pub cores: usize,
    /// Of all cores together, a virtual second.
    pub ops_per_sec: f64,
    /// Lines that were found modified in another core's cache, for each operation.
    pub hitm_per_op: f64,
    /// The fields that they were fetched for.
    pub hot: Vec<Hot>,
}

/// A field of the engine's memory that cores take from each other.
#[derive(Clone, Debug, Serialize)]
pub struct Hot {
    /// `Bucket`, ...
    pub object: String,
    /// As in the source.
    pub field: String,
    /// From the object's start.
    pub offset: usize,
    /// Of the field; none where the model does not say.
    pub bytes: Option<usize>,
    /// For each operation.
    pub hitm: f64,
}

/// A published comparison on virtual cores.
#[derive(Clone, Debug, Serialize)]
pub struct Side {
    /// Always `sim validate`.
    pub workload: &'static str,
    /// As in `published`.
    pub case: String,
    /// Whose latencies, and how many cores.
    pub machine: String,
    /// Operations a virtual second.
    pub before_per_sec: f64,
    /// The same.
    pub after_per_sec: f64,
}

impl Modelled {
    /// A published comparison's rows here.
    pub fn seed(&self, id: &str) -> Option<&Side> {
        self.seeds.iter().find(|side| side.case == id)
    }
}

/// Runs the model, case by case; after Ctrl-C what there is.
pub fn run(silent: bool, effort: Effort) -> Result<Modelled> {
    let runs: &[&str] = if effort.is_quick() { &QUICK } else { &RUNS };
    // What the published comparisons want takes most of the time, and cannot be had for less.
    let seeds = if effort.is_quick() { 0 } else { seeds::steps() };
    let progress = Progress::start("the model: virtual cores", runs.len() + seeds, silent);
    let mut all = Modelled::default();
    for flags in runs.iter().take_while(|_| !interrupt::asked()) {
        let rows = sim::rows(&settings(flags)?)?;
        all.cores.extend(rows.into_iter().map(cores));
        progress.step();
    }
    if seeds > 0 {
        all.seeds = seeds::sides(|| progress.step())?.into_iter().map(side).collect();
    }
    all.notes.push(
        "Nothing in this part was measured. `ufutex sim` runs the same by hand, for other machines, sizes and layouts."
            .to_string(),
    );
    Ok(all)
}

fn side(side: seeds::Side) -> Side {
    let (before_per_sec, after_per_sec) = side.rates;
    Side { workload: "sim validate", case: side.id, machine: side.machine, before_per_sec, after_per_sec }
}

fn settings(flags: &str) -> Result<cli::sim::Settings> {
    let arguments = ["ufutex", "sim"].into_iter().chain(flags.split_whitespace()).map(Into::into);
    match cli::parse(arguments) {
        Ok(Command::Sim(settings)) => Ok(*settings),
        Err(cli::Refusal::Mistake(line)) => Err(anyhow!("sim {flags}: {line}")),
        _ => Err(anyhow!("sim {flags} is no run of the model")),
    }
}

fn cores(row: Row) -> Cores {
    let hot = row.hot.iter().map(|hot| Hot {
        object: hot.object.to_string(),
        field: hot.field.to_string(),
        offset: hot.offset,
        bytes: None,
        hitm: hot.hitm,
    });
    Cores {
        workload: "sim hash",
        hot: hot.filter(|hot| hot.hitm > 0.0).collect(),
        topology: row.topology,
        scheme: row.scheme,
        layout: row.layout,
        buckets: row.buckets,
        cores: row.cores,
        ops_per_sec: row.ops_per_sec,
        hitm_per_op: row.hitm_per_op,
    }
}

#[cfg(test)]
mod tests {
    use super::seeds;
    use crate::published::Source;
    use crate::report_html::published;

    #[test]
    fn the_model_knows_the_published_comparisons_by_their_names() {
        let named = published::comparisons();
        let unknown: Vec<_> = seeds::ids().filter(|id| !named.iter().any(|one| one.id == id)).collect();
        assert_eq!(unknown, Vec::<String>::new());
        // The model compares those of [percpu-refs] the other way round.
        let without: Vec<_> = named.iter().filter(|one| !seeds::ids().any(|id| id == one.id)).collect();
        assert!(without.iter().all(|one| one.source == Source::PercpuRefs) && without.len() == 2);
    }

    #[test]
    fn the_flags_are_those_of_sim() {
        for flags in super::RUNS.iter().chain(&super::QUICK) {
            super::settings(flags).expect("settings");
        }
    }
}
