//! `hash` and `wake`: each thread repeats an operation on its own words, one after the other.

use super::engine::{self, Case, Domain, PLAIN_CYCLES, Waited};
use super::words::Words;
use crate::settings::{Settings, Workload};
use anyhow::{Result, ensure};
use lab_measure::interrupt;
use std::cell::Cell;
use ufutex_coherence::{Length, Report, Simulation, current};

/// The expected value of perf's waits. The words hold 0.
const DIFFERING_VALUE: u32 = 1234;
/// A case is run, each time with another seed, until the relative standard error of the mean rate is at most this,
/// within `RUNS_MIN` and `RUNS_MAX` runs.
const SPREAD_MAX: f64 = 0.01;
const RUNS_MIN: u64 = 2;
const RUNS_MAX: u64 = 5;
/// Measured operations of each core in a run. There are at least `MEASURED_IN_ALL` in the run.
const MEASURED: usize = 512;
const MEASURED_IN_ALL: usize = 8192;

/// The result of all runs of a case.
pub struct Finding {
    /// The sum of all runs' reports.
    pub report: Report,
    /// Number of runs.
    pub runs: u64,
    /// Relative standard error of the mean rate.
    pub spread: f64,
    /// Buckets in use at the end.
    pub buckets: usize,
}

struct Hammer<'a> {
    settings: &'a Settings,
    cores: usize,
    seed: u64,
}

impl Hammer<'_> {
    /// Returns the report, the buckets in use at the end, and the number of operations with a wrong result.
    fn run(&self, domain: &dyn Domain) -> (Report, usize, u64) {
        let Settings { topology, futexes, workload, .. } = self.settings;
        let words = Words::new(self.cores, *futexes);
        let plain_ns = PLAIN_CYCLES / topology.ghz;
        let each = |operations: usize| (self.cores * operations) as u64;
        let warm_up = each((*futexes).clamp(256, 4096));
        let measured = each(MEASURED).max(MEASURED_IN_ALL as u64);
        let failed = Cell::new(0);
        let simulation = Simulation::new(topology).threads(self.cores).seed(self.seed);
        let report = simulation.length(Length::Operations { warm_up, measured }).run(|thread| {
            words.warm_up();
            current::rendezvous();
            let mut number = 0;
            while !current::is_over() {
                let word = words.word(thread, number);
                current::compute(plain_ns);
                let is_right = match workload {
                    Workload::Wake => domain.wake(word, 1) == 0,
                    _ => domain.wait(word, DIFFERING_VALUE) == Waited::Differs,
                };
                failed.set(failed.get() + u64::from(!is_right));
                current::done(1);
                number = if number + 1 == words.count() { 0 } else { number + 1 };
            }
        });
        (report, domain.buckets(), failed.get())
    }
}

/// Runs a case until its rate is known well enough.
pub fn find(settings: &Settings, case: Case) -> Result<Finding> {
    let mut rates = Vec::new();
    let mut all: Option<(Report, usize)> = None;
    for run in 0..RUNS_MAX {
        let hammer = Hammer { settings, cores: case.cores, seed: settings.seed.wrapping_add(run) };
        let (report, buckets, failed) = hammer.run(&*engine::of_case(settings, case)?);
        if interrupt::requested() && report.stuck > 0 && all.is_some() {
            // This run was cut short. The runs before it are valid.
            break;
        }
        ensure!(failed == 0, "{} on {} cores: {failed} operations had a wrong result", case.scheme, case.cores);
        ensure!(report.stuck == 0, "{} on {} cores: {} threads never ended", case.scheme, case.cores, report.stuck);
        rates.push(report.per_second());
        match &mut all {
            Some((sum, _)) => sum.add(&report),
            None => all = Some((report, buckets)),
        }
        if (run + 1 >= RUNS_MIN && spread(&rates) <= SPREAD_MAX) || interrupt::requested() {
            break;
        }
    }
    let (report, buckets) = all.expect("one run at least");
    Ok(Finding { report, runs: rates.len() as u64, spread: spread(&rates), buckets })
}

/// The relative standard error of the mean.
fn spread(rates: &[f64]) -> f64 {
    let count = rates.len() as f64;
    if count < 2.0 {
        return 0.0;
    }
    let mean = rates.iter().sum::<f64>() / count;
    let variance = rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / (count - 1.0);
    (variance / count).sqrt() / mean
}
