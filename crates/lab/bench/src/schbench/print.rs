//! The output of schbench: a table of all targets, and rows of JSON.

use super::{Competitor, Findings, Schbench};
use crate::rows::SPARE;
use crate::workload::Workload;
use crate::{Lab, policy_name};
use lab_measure::stats;
use lab_targets::Name;
use lab_targets::schbench::Latencies;
use lab_terminal::table;
use serde::Serialize;

/// A row of each target. A target's rounds are merged into one.
pub fn rows(lab: &Lab<'_>, asked: &Schbench, competitors: &[Competitor], found: &[Vec<Findings>]) -> Vec<Row> {
    let measured: Vec<_> = competitors.iter().zip(found).filter(|(_, rounds)| !rounds.is_empty()).collect();
    let kernel = measured.iter().find(|(one, _)| one.name == Name::Kernel).map(|(_, rounds)| rates(rounds));
    let row = |(one, rounds): (&Competitor, &Vec<Findings>)| {
        let rates = rates(rounds);
        let ratio = kernel.as_ref().and_then(|kernel| stats::pairwise(&rates, kernel, |this, that| this / that));
        Row::new(lab, asked, one, &together(rounds), &rates, ratio)
    };
    measured.into_iter().map(row).collect()
}

fn rates(rounds: &[Findings]) -> Vec<f64> {
    rounds.iter().map(Findings::rps).collect()
}

fn together(rounds: &[Findings]) -> Findings {
    let mut all = Findings::default();
    for round in rounds {
        all.wakeups.add(&round.wakeups);
        all.requests.add(&round.requests);
        all.rates.add(&round.rates);
        all.done += round.done;
        all.elapsed += round.elapsed;
        all.delay_us = round.delay_us;
    }
    all
}

/// The table.
pub fn text(rows: &[Row]) -> String {
    let header = ["target", "buckets", "RPS", "/ kernel", "wakeup p50, us", "p99", "p99.9", "request p50, us", "p99"];
    let cells = |row: &Row| {
        let mut cells = vec![row.target.to_string(), row.buckets.map_or_else(table::dash, |count| count.to_string())];
        cells.extend([format!("{:.0}", row.rps), table::ratio(row.ratio_kernel)]);
        let (wakeup, request) = (&row.wakeup_us, &row.request_us);
        cells.extend([wakeup.p50, wakeup.p99, wakeup.p999, request.p50, request.p99].map(|us| format!("{us:.1}")));
        cells
    };
    table::fitted(&header, 1, rows.iter().map(cells).collect(), &SPARE)
}

/// One object of `--json`.
#[derive(Serialize)]
pub struct Row {
    workload: &'static str,
    target: &'static str,
    message_threads: usize,
    workers: usize,
    /// `false` and `0` in all rows, as in rows of versions whose workers could be tasks and have a given rate.
    tasks: bool,
    rate: u32,
    buckets: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    layout: Option<String>,
    repeat: usize,
    runtime_s: f64,
    operations: usize,
    cache_footprint_kb: usize,
    sleep_us: u64,
    locking: bool,
    rps: f64,
    requests: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio_kernel: Option<f64>,
    wakeup_us: Percentiles,
    request_us: Percentiles,
    rps_seconds: Rates,
    scheduling_delay_us: Delays,
}

#[derive(Serialize)]
struct Percentiles {
    p50: f64,
    p90: f64,
    p99: f64,
    p999: f64,
    min: f64,
    max: f64,
    samples: u64,
}

#[derive(Serialize)]
struct Rates {
    p20: u64,
    p50: u64,
    p90: u64,
    min: u64,
    max: u64,
}

#[derive(Serialize)]
struct Delays {
    message: Option<f64>,
    worker: Option<f64>,
}

impl Row {
    fn new(
        lab: &Lab<'_>,
        asked: &Schbench,
        one: &Competitor,
        found: &Findings,
        rates: &[f64],
        ratio_kernel: Option<f64>,
    ) -> Row {
        let plan = asked.plan();
        Row {
            workload: Schbench::NAME,
            target: one.name.text(),
            message_threads: plan.message_threads,
            workers: plan.workers,
            tasks: false,
            rate: 0,
            buckets: one.subject.buckets(),
            policy: one.name.is_ours().then(|| policy_name(one.name, one.policy)),
            layout: one.name.is_ours().then(|| lab.settings.layout.to_string()),
            repeat: rates.len(),
            runtime_s: asked.runtime_s(),
            operations: plan.operations,
            cache_footprint_kb: plan.footprint_bytes / 1024,
            sleep_us: plan.nap.as_micros() as u64,
            locking: plan.locking,
            rps: stats::median(rates),
            requests: found.done,
            ratio_kernel,
            wakeup_us: Percentiles::of(&found.wakeups),
            request_us: Percentiles::of(&found.requests),
            rps_seconds: Rates::of(&found.rates),
            scheduling_delay_us: Delays { message: found.delay_us.0, worker: found.delay_us.1 },
        }
    }
}

impl Percentiles {
    /// Converts nanoseconds into microseconds.
    fn of(latencies: &Latencies) -> Percentiles {
        let us = |ns: u64| ns as f64 / 1e3;
        let [p50, p90, p99, p999] = [50.0, 90.0, 99.0, 99.9].map(|percent| us(latencies.percentile(percent)));
        Percentiles {
            p50,
            p90,
            p99,
            p999,
            min: us(latencies.min()),
            max: us(latencies.max()),
            samples: latencies.count(),
        }
    }
}

impl Rates {
    fn of(rates: &Latencies) -> Rates {
        let [p20, p50, p90] = [20.0, 50.0, 90.0].map(|percent| rates.percentile(percent));
        Rates { p20, p50, p90, min: rates.min(), max: rates.max() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_add_up_and_the_rate_is_of_all_of_them() {
        let round = |done, seconds| {
            let elapsed = std::time::Duration::from_secs(seconds);
            let mut one = Findings { done, elapsed, ..Findings::default() };
            one.requests.record(done);
            one
        };
        let all = together(&[round(100, 1), round(500, 2)]);
        assert_eq!((all.done, all.elapsed.as_secs(), all.rps(), all.requests.count()), (600, 3, 200.0, 2));
    }
}
