//! This machine's own figures of two threads, predicted from latencies that are measured beside them.
//!
//! How far two CPUs are apart changes by the hour where a hypervisor moves them. So each round measures the latencies, runs
//! `bench`, and measures the latencies again.

use super::bare::Bare;
use super::latency::{Latencies, Latency};
use super::{Settings, progress};
use crate::engine::Case;
use crate::hammer;
use crate::settings::{self, Scheme, Workload};
use anyhow::{Context, Result, bail};
use lab_measure::machine;
use lab_measure::{interrupt, stats};
use lab_targets::{Layout, Policy};
use serde_json::Value;
use std::process::{Command, Stdio};
use ufutex_coherence::Topology;

/// Rounds of both workloads.
const ROUNDS: usize = 5;
/// Seconds of each `bench`.
const SECONDS: &str = "1";
const THREADS: usize = 2;
const BUCKETS: usize = 1024;
/// A figure of this machine and its prediction, in nanoseconds: medians of the rounds.
pub struct Row {
    pub workload: &'static str,
    pub target: &'static str,
    /// An operation of one thread alone.
    pub alone: Pair,
    /// An operation of each of two threads.
    pub both: Pair,
    /// How far the predicted time of two threads is off: the median of the rounds' ratios.
    pub off: f64,
    /// How far the predicted ratio of two threads to one is off.
    pub off_to_one: f64,
}

/// A figure twice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    pub measured: f64,
    pub predicted: f64,
}

/// A round's figures of one thread and of two.
type Round = [Pair; 2];

/// The target, by its name in `bench` and how it is modelled.
const TARGETS: [(&str, Target); 7] = [
    ("live", Target::Engine(Scheme::Live)),
    ("fixed", Target::Engine(Scheme::Fixed)),
    ("atomic", Target::Engine(Scheme::Atomic)),
    ("percpu", Target::Engine(Scheme::Percpu)),
    ("global", Target::Engine(Scheme::Global)),
    ("parking_lot", Target::Bare(Bare::ParkingLot)),
    ("floor", Target::Bare(Bare::Floor { buckets: BUCKETS })),
];

#[derive(Clone, Copy)]
enum Target {
    Engine(Scheme),
    Bare(Bare),
}

const WORKLOADS: [(&str, Workload); 2] = [("hash", Workload::Hash), ("wake", Workload::Wake)];

/// Number of figures.
pub const FIGURES: usize = TARGETS.len() * WORKLOADS.len();

/// Measures and predicts. Empty if this machine has one CPU; after Ctrl-C, what the complete rounds say.
pub fn rows(settings: &Settings) -> Result<(Vec<Row>, Latencies)> {
    let [first, second, ..] = machine::allowed_cpus()[..] else {
        return Ok(Default::default());
    };
    let progress = progress(settings, "measuring and predicting this machine,", FIGURES);
    let mut latencies = Latencies::default();
    let mut rounds: Vec<Vec<Round>> = vec![Vec::new(); FIGURES];
    for round in 0..ROUNDS {
        for (number, (name, workload)) in WORKLOADS.into_iter().enumerate() {
            let before = Latency::measure(first, second);
            let measured = bench(name)?;
            let latency = before.and(Latency::measure(first, second));
            if interrupt::requested() {
                return Ok((found(&rounds), latencies));
            }
            let topology = latency.topology();
            for (at, (target, how)) in TARGETS.into_iter().enumerate() {
                let pair = |threads| {
                    let measured = measured_ns(&measured, target, threads);
                    let measured = measured.with_context(|| format!("bench {name}: no row of {target}"))?;
                    anyhow::Ok(Pair { measured, predicted: predict(&topology, how, workload, threads, round as u64)? })
                };
                rounds[number * TARGETS.len() + at].push([pair(1)?, pair(THREADS)?]);
            }
            latencies.push(latency);
        }
        progress.remark(&format!("sim validate --cross: measured round {} of {ROUNDS}", round + 1));
    }
    Ok((found(&rounds), latencies))
}

fn found(rounds: &[Vec<Round>]) -> Vec<Row> {
    let named =
        WORKLOADS.into_iter().flat_map(|(workload, _)| TARGETS.into_iter().map(move |(name, _)| (workload, name)));
    let median =
        |rounds: &[Round], of: &dyn Fn(&Round) -> f64| stats::median(&rounds.iter().map(of).collect::<Vec<_>>());
    let row = |((workload, target), rounds): ((&'static str, &'static str), &Vec<Round>)| {
        let pair = |which: usize| Pair {
            measured: median(rounds, &|round| round[which].measured),
            predicted: median(rounds, &|round| round[which].predicted),
        };
        let off = |pair: Pair| pair.predicted / pair.measured;
        (!rounds.is_empty()).then(|| Row {
            workload,
            target,
            alone: pair(0),
            both: pair(1),
            off: median(rounds, &|[_, both]| off(*both)),
            off_to_one: median(rounds, &|[alone, both]| off(*both) / off(*alone)),
        })
    };
    named.zip(rounds).filter_map(row).collect()
}

/// The rows of `bench`.
fn bench(workload: &str) -> Result<Vec<Value>> {
    let targets = TARGETS.map(|(name, _)| name).join(",");
    let line = format!("bench {workload} -t 1,{THREADS} -b {BUCKETS} -r {SECONDS} --json --silent --targets {targets}");
    let mut command = Command::new(std::env::current_exe()?);
    let output = command.args(line.split(' ')).stdin(Stdio::null()).output()?;
    if !output.status.success() && !interrupt::requested() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("`ufutex {line}` ended with {}: {}", output.status, said.trim());
    }
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    lines.lines().map(|line| serde_json::from_str(line).context("a row of bench")).collect()
}

/// Nanoseconds of a target's operation. A row that looks at the word before it locks anything is another target's.
fn measured_ns(rows: &[Value], target: &str, threads: usize) -> Option<f64> {
    let is_it = |row: &&Value| row["target"] == target && row["threads"] == threads && row["early_return"] != true;
    rows.iter().find(is_it)?["ns_per_op"]["median"].as_f64()
}

fn predict(topology: &Topology, target: Target, workload: Workload, threads: usize, seed: u64) -> Result<f64> {
    let scheme = match target {
        Target::Bare(bare) => return Ok(bare.ns(topology, threads, workload == Workload::Hash, seed)),
        Target::Engine(scheme) => scheme,
    };
    let policy = Policy::Fixed(BUCKETS);
    let settings = settings::Settings {
        workload,
        topology: topology.clone(),
        cores: vec![threads],
        schemes: vec![scheme],
        layouts: vec![Layout::Lean],
        policies: vec![policy],
        futexes: super::super::hash::WORDS,
        early_return: false,
        resize: (BUCKETS, BUCKETS),
        seed,
        silent: true,
        json: false,
    };
    let finding = hammer::find(&settings, Case { scheme, layout: Layout::Lean, policy, cores: threads })?;
    Ok(threads as f64 * 1e9 / finding.report.per_second())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_row_that_looks_before_it_locks_is_not_the_targets() {
        let row = |early, ns: f64| json!({"target": "live", "threads": 2, "early_return": early, "ns_per_op": {"median": ns}});
        let rows = [
            row(json!(true), 0.8),
            row(json!(false), 9.5),
            json!({"target": "floor", "threads": 1, "ns_per_op": {"median": 16.7}}),
        ];
        assert_eq!((measured_ns(&rows, "live", 2), measured_ns(&rows, "live", 1)), (Some(9.5), None));
        assert_eq!(measured_ns(&rows, "floor", 1), Some(16.7), "bench wake's rows do not say");
        assert_eq!(measured_ns(&rows, "atomic", 2), None);
    }

    #[test]
    fn a_round_counts_by_its_own_ratio_and_figures_without_rounds_are_left_out() {
        let mut rounds = vec![Vec::new(); FIGURES];
        let pair = |measured, predicted| Pair { measured, predicted };
        let both = [(10.0, 5.0), (20.0, 30.0), (40.0, 80.0)].map(|(measured, predicted)| pair(measured, predicted));
        rounds[TARGETS.len() + 1] = both.map(|both| [pair(5.0, 10.0), both]).to_vec();
        let rows = found(&rounds);
        assert_eq!(rows.len(), 1);
        let row = &rows[0];
        assert_eq!((row.workload, row.target), ("wake", "fixed"));
        assert_eq!((row.alone, row.both), (pair(5.0, 10.0), pair(20.0, 30.0)));
        assert_eq!((row.off, row.off_to_one), (1.5, 0.75));
    }
}
