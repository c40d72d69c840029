//! The output of schbench: its own text for each run, a table of all targets, and rows of JSON.

use super::{Competitor, Findings, Schbench};
use crate::rows::SPARE;
use crate::workload::Workload;
use crate::{Lab, policy_name};
use lab_measure::stats;
use lab_targets::Name;
use lab_targets::schbench::{Latencies, Plan};
use lab_terminal::table;
use serde::Serialize;
use std::fmt::Write;

/// Percentiles of latencies that are printed. The first one only with `-p`.
pub const PERCENTILES: [f64; 5] = [20.0, 50.0, 90.0, 99.0, 99.9];

/// One run, as schbench prints it.
pub fn run(plan: &Plan, found: &Findings) -> String {
    let (mut text, seconds) = (String::new(), found.elapsed.as_secs());
    let is_pipe = plan.pipe_bytes > 0;
    let latencies = if is_pipe { &PERCENTILES[..] } else { &PERCENTILES[1..] };
    let us = |ns: u64| ns / 1000;
    text += &percentiles("Wakeup Latencies", "usec", &found.wakeups, (seconds, latencies, 99.0), us);
    if is_pipe {
        let (operations, bytes) = transfers(plan, found);
        let (number, unit) = pretty_size(bytes);
        let _ = writeln!(text, "avg worker transfer: {operations:.2} ops/sec {number:.2}{unit}/s");
        return text;
    }
    text += &percentiles("Request Latencies", "usec", &found.requests, (seconds, latencies, 99.0), us);
    text += &percentiles("RPS", "requests", &found.rates, (seconds, &PERCENTILES[..3], 50.0), |rate| rate);
    let _ = writeln!(text, "average rps: {:.2}", found.rps());
    let delay = |us: Option<f64>| us.map_or_else(table::dash, |us| format!("{us:.0}"));
    let (messages, workers) = found.delay_us;
    let _ = writeln!(text, "sched delay: message {} (usec) worker {} (usec)", delay(messages), delay(workers));
    text
}

fn percentiles(
    label: &str,
    unit: &str,
    of: &Latencies,
    (seconds, list, star): (u64, &[f64], f64),
    shown: impl Fn(u64) -> u64,
) -> String {
    let mut text = format!("{label} percentiles ({unit}) runtime {seconds} (s) ({} total samples)\n", of.count());
    for percent in list {
        let below = PERCENTILES.iter().copied().rfind(|other| other < percent);
        let mark = if *percent == star { "* " } else { "  " };
        let value = shown(of.percentile(*percent));
        let _ = writeln!(text, "\t{mark}{percent:2.1}th: {value:<10} ({} samples)", of.between(below, *percent));
    }
    let _ = writeln!(text, "\t  min={}, max={}", shown(of.min()), shown(of.max()));
    text
}

/// Mean of one worker: transfers per second and bytes per second.
fn transfers(plan: &Plan, found: &Findings) -> (f64, f64) {
    let operations = found.done as f64 / found.worker_time.as_secs_f64().max(f64::MIN_POSITIVE);
    (operations, operations * plan.pipe_bytes as f64)
}

fn pretty_size(mut number: f64) -> (f64, &'static str) {
    let mut units = ["B", "KB", "MB", "GB", "TB"].into_iter();
    let mut unit = units.next().unwrap_or_default();
    for larger in units.take_while(|_| number >= 1024.0).collect::<Vec<_>>() {
        if number >= 1024.0 {
            (number, unit) = (number / 1024.0, larger);
        }
    }
    (number, unit)
}

/// A row of each target. A target's rounds are merged into one.
pub fn rows(lab: &Lab<'_>, asked: &Schbench, competitors: &[Competitor], found: &[Vec<Findings>]) -> Vec<Row> {
    let measured: Vec<_> = competitors.iter().zip(found).filter(|(_, rounds)| !rounds.is_empty()).collect();
    let kernel = measured.iter().find(|(one, _)| one.name == Name::Kernel).map(|(_, rounds)| rates(rounds));
    let row = |(one, rounds): (&Competitor, &Vec<Findings>)| {
        let rates = rates(rounds);
        let ratio = kernel.as_ref().and_then(|kernel| stats::pairwise(&rates, kernel, |this, that| this / that));
        Row::new(lab, asked, one, together(rounds), &rates, ratio)
    };
    measured.into_iter().map(row).collect()
}

/// The runs of all targets, and their table.
pub fn text(plan: &Plan, rows: &[Row]) -> String {
    let runs = rows.iter().map(|row| format!("\n### {}\n{}", row.target, run(plan, &row.found)));
    format!("{}\n{}", runs.collect::<String>(), comparison(rows))
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
        all.worker_time += round.worker_time;
        all.delay_us = round.delay_us;
        all.rate_goal = round.rate_goal;
    }
    all
}

fn comparison(rows: &[Row]) -> String {
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
    pub target: &'static str,
    message_threads: usize,
    workers: usize,
    tasks: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    executors: Option<usize>,
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
    rate: u32,
    rps: f64,
    requests: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio_kernel: Option<f64>,
    wakeup_us: Percentiles,
    request_us: Percentiles,
    rps_seconds: Rates,
    scheduling_delay_us: Delays,
    #[serde(skip_serializing_if = "Option::is_none")]
    pipe_bytes: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mb_per_sec: Option<f64>,
    /// All rounds together.
    #[serde(skip)]
    pub found: Findings,
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
        found: Findings,
        rates: &[f64],
        ratio_kernel: Option<f64>,
    ) -> Row {
        let plan = asked.plan();
        let is_pipe = plan.pipe_bytes > 0;
        Row {
            workload: Schbench::NAME,
            target: one.name.text(),
            message_threads: plan.message_threads,
            workers: plan.workers,
            tasks: asked.tasks,
            executors: asked.executors(),
            buckets: one.subject.buckets(),
            policy: one.name.is_ours().then(|| policy_name(one.name, one.policy)),
            layout: one.name.is_ours().then(|| lab.settings.layout.to_string()),
            repeat: rates.len(),
            runtime_s: asked.runtime_s(),
            operations: plan.operations,
            cache_footprint_kb: plan.footprint_bytes / 1024,
            sleep_us: plan.nap.as_micros() as u64,
            locking: plan.locking,
            rate: found.rate_goal,
            rps: stats::median(rates),
            requests: found.done,
            ratio_kernel,
            wakeup_us: Percentiles::of(&found.wakeups),
            request_us: Percentiles::of(&found.requests),
            rps_seconds: Rates::of(&found.rates),
            scheduling_delay_us: Delays { message: found.delay_us.0, worker: found.delay_us.1 },
            pipe_bytes: is_pipe.then_some(plan.pipe_bytes),
            mb_per_sec: is_pipe.then(|| transfers(&plan, &found).1 / f64::from(1 << 20)),
            found,
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
    fn percentiles_read_as_schbenchs() {
        let mut of = Latencies::default();
        (1..=100).for_each(|value| of.record(value * 1000));
        let text = percentiles("Wakeup Latencies", "usec", &of, (30, &PERCENTILES[1..], 99.0), |ns| ns / 1000);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "Wakeup Latencies percentiles (usec) runtime 30 (s) (100 total samples)");
        assert_eq!(lines[1], "\t  50.0th: 50         (30 samples)");
        assert_eq!(lines[3], "\t* 99.0th: 99         (9 samples)");
        assert!(lines[4].starts_with("\t  99.9th: 100  "));
        assert_eq!(lines[5], "\t  min=1, max=100");
    }

    #[test]
    fn rounds_add_up_and_the_rate_is_of_all_of_them() {
        let round = |done, seconds| {
            let elapsed = std::time::Duration::from_secs(seconds);
            let mut one = Findings { done, elapsed, worker_time: elapsed, ..Findings::default() };
            one.requests.record(done);
            one
        };
        let all = together(&[round(100, 1), round(500, 2)]);
        assert_eq!((all.done, all.elapsed.as_secs(), all.rps(), all.requests.count()), (600, 3, 200.0, 2));
    }

    #[test]
    fn sizes_are_printed_in_their_unit() {
        assert_eq!(pretty_size(512.0), (512.0, "B"));
        assert_eq!(pretty_size(3.0 * 1024.0 * 1024.0), (3.0, "MB"));
    }
}
