//! `ping-pong`: threads pass balls on in a ring, on one CPU and on two. Each pass is a store and a wake.

use crate::all::All;
use crate::flags::{Own, Shared, help_of_futexes};
use crate::rows::{self, shown};
use crate::settings::Settings;
use crate::summary::Line;
use crate::workload::{Workload, plain};
use crate::{Entrant, Head, Lab, Ratios, stage};
use anyhow::Result;
use clap::Args;
use clap::builder::TypedValueParser;
use lab_measure::clock;
use lab_measure::pool::{Gate, Pool};
use lab_measure::stats::Spread;
use lab_targets::Name;
use lab_targets::loops::{PingPong as Game, Tally};
use lab_values::{self as values, List, THREADS_MAX};
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;

const BUDGET_S: f64 = 6.0;
/// Longest work of a player.
const WORK_MAX: Duration = Duration::from_millis(100);

/// Two threads wake each other in turn
#[derive(Clone, Args)]
pub struct PingPong {
    /// How many threads wake each other in turn, a comma list
    #[arg(short, long, value_name = "LIST", default_value = "2", value_parser = values::numbers(2, THREADS_MAX, "threads"))]
    threads: List<usize>,
    /// Number of balls that go round; N balls and 2 threads are a queue of N elements between a producer and a consumer
    #[arg(long, value_name = "N", default_value = "1", value_parser = values::number::<u32>(1, 1_000_000, "balls"))]
    balls: u32,
    /// How long a thread works before each wake, a comma list
    #[arg(long, value_name = "LIST", default_value = "0", value_parser = lengths)]
    work: List<Duration>,
    /// How many microseconds a thread of `live (spin)` may spin before it sleeps; 0 leaves those rows out
    #[arg(long, value_name = "US", default_value = "200",
        value_parser = values::number::<u64>(0, 10_000, "microseconds").map(Duration::from_micros))]
    spin: Duration,
    #[command(flatten)]
    shared: Shared,
    #[command(flatten)]
    own: Own,
}

/// `--work`.
fn lengths(text: &str) -> Result<List<Duration>, String> {
    let accepted = format!(
        "0, or a time up to {}ms such as 500ns, 30us or 1ms, or a comma list of such times",
        WORK_MAX.as_millis()
    );
    values::list(text, &accepted, |part| {
        if part == "0" {
            return Some(Duration::ZERO);
        }
        let units = [("ns", 1), ("us", 1000), ("ms", 1_000_000)];
        let (number, unit) = units.iter().find_map(|(name, ns)| Some((part.strip_suffix(name)?, *ns)))?;
        let ns = number.parse::<u64>().ok()?.checked_mul(unit)?;
        Some(Duration::from_nanos(ns)).filter(|length| *length <= WORK_MAX)
    })
}

/// `live` with `--spin`, in `Lab::series`.
const SPINNING: &str = "live, spin";

/// One row of the results. The help has a line on each field.
#[derive(Serialize)]
pub struct Row {
    #[serde(flatten)]
    head: Head,
    cpus: usize,
    spin: bool,
    balls: u32,
    work_ns: u64,
    ns_per_op: Spread,
    cpu_ns_per_op: Spread,
    #[serde(flatten)]
    ratios: Ratios,
}

shown!(Row, |row| row.ns_per_op.median, row.ratios.over(), row.spin.then_some("spin"));

struct Competitor {
    entrant: Entrant,
    cpus: usize,
    spin: bool,
    balls: u32,
    work: Duration,
}

impl Competitor {
    /// Its name in `Lab::series`.
    fn label(&self) -> &'static str {
        if self.spin { SPINNING } else { self.entrant.name.text() }
    }

    /// Section of its results in `Lab::series`. The last part of a key is the number of CPUs.
    fn section(&self) -> String {
        match (self.entrant.threads, self.balls, self.work) {
            (2, 1, Duration::ZERO) => PingPong::NAME.to_string(),
            (threads, balls, work) => format!("ping-pong {threads} {balls} {work:?}"),
        }
    }
}

impl Workload for PingPong {
    const NAME: &'static str = "ping-pong";
    type Row = Row;

    fn help() -> String {
        help_of_futexes(
            "\
  cpus           number of CPUs that the threads are pinned to: 1 or 2
  spin           true in rows of `live (spin)`, whose threads may spin before they sleep
  balls          how many balls the threads pass on
  work_ns        how long a thread works before each wake
  ns_per_op      {p10, median, p90} of a pass, work included: with one ball from a wake to the next
  cpu_ns_per_op  the same of the CPU time of all threads together
  ratio_kernel, ratio_parking_lot   this row's ns_per_op divided by theirs: the median over the rounds",
            "  ufutex bench ping-pong --targets live,kernel --work 0,5us,1ms",
        )
    }

    fn check(&mut self) -> Result<Settings, String> {
        Ok(Settings { shared: self.shared.shared, ..self.own.settings()? })
    }

    fn in_all(_: &All) -> Vec<Self> {
        vec![plain()]
    }

    /// Measures all targets, one sample of each in a round.
    fn run(&self, lab: &mut Lab<'_>, notes: &mut Vec<String>) -> Result<Vec<Row>> {
        if lab.cpus.len() < 2 {
            notes.push("two CPUs left out: this process may use only one CPU".to_string());
        }
        let pool = Pool::new(self.threads.iter().copied().max().unwrap_or(2), &lab.cpus)?;
        let competitors = self.line_up(lab)?;
        let ticks_per_ns = 1.0 / clock::nanoseconds_per_tick();
        let pace = lab.pace(BUDGET_S, competitors.len());
        lab.measure(
            &stage(Self::NAME, &competitors),
            pace.rounds,
            &competitors,
            |lab, one| sample_one(lab, &pool, one, ticks_per_ns, pace.sample),
            (|one| (one.section().into(), one.label().into(), one.cpus), |sample: &Sample| sample.ns),
            row,
        )
    }

    fn text(&self, rows: &[Row]) -> String {
        rows::table(rows, 1, |row| {
            let mut cells = vec![rows::target(row), ("threads", row.head.threads.to_string())];
            cells.push(("CPUs", rows::with_distance(row.cpus, &row.head)));
            cells.extend([("work ns", row.work_ns.to_string()), rows::buckets(&row.head)]);
            cells.extend(rows::spread("ns one way", &row.ns_per_op, 0));
            cells.push(("CPU ns", format!("{:.0}", row.cpu_ns_per_op.median)));
            cells.extend(rows::ratios(&row.ratios));
            cells
        })
    }

    fn line(&self, rows: &[Row]) -> Option<Line> {
        Line::first("one way, ns", rows, |row| (row.cpus, row.head.threads, row.work_ns))
    }
}

impl PingPong {
    fn line_up(&self, lab: &Lab<'_>) -> Result<Vec<Competitor>> {
        let mut competitors = Vec::new();
        let cases = self.threads.iter().flat_map(|threads| self.work.iter().map(move |work| (*threads, *work)));
        for (threads, work) in cases {
            for cpus in 1..=lab.cpus.len().min(2) {
                for name in lab.sleeping_targets() {
                    let spins = (name == Name::Live && !self.spin.is_zero()).then_some(self.spin);
                    for spin in [Duration::ZERO].into_iter().chain(spins) {
                        let entrant = lab.small_spinning_table(name, threads, spin)?;
                        competitors.push(Competitor { entrant, cpus, spin: !spin.is_zero(), balls: self.balls, work });
                    }
                }
            }
        }
        Ok(competitors)
    }
}

/// Means of one sample, from a wake to the next.
#[derive(Clone, Copy)]
struct Sample {
    ns: f64,
    cpu_ns: f64,
}

fn sample_one(lab: &Lab<'_>, pool: &Pool, one: &Competitor, ticks_per_ns: f64, length: Duration) -> Result<Sample> {
    one.entrant.subject.make_ready();
    let work = one.work.as_nanos() as f64 * ticks_per_ns;
    let threads = one.entrant.threads;
    let (gate, words) = (Gate::new(threads), Arc::new(Game::new(threads, one.balls, work as u64)));
    let job = {
        let (subject, gate) = (one.entrant.subject.clone(), gate.clone());
        move |player: usize| subject.ping_pong(&words, player, &gate)
    };
    let tallies: Vec<Tally> = pool.run_on(threads, &lab.cpus[..one.cpus], job, || gate.stop_after(length))?;
    let first = &tallies[0];
    let per_op = |time: Duration| time.as_nanos() as f64 / first.operations.max(1) as f64;
    Ok(Sample { ns: per_op(first.end - first.start), cpu_ns: per_op(tallies.iter().map(|tally| tally.on_cpu).sum()) })
}

fn row(lab: &Lab<'_>, one: &Competitor, samples: &[Sample]) -> Row {
    let spread = |figure: fn(&Sample) -> f64| Spread::of(&samples.iter().map(figure).collect::<Vec<_>>());
    Row {
        head: one.entrant.head(lab, PingPong::NAME, 1, samples.len()).on_cpus(lab, one.cpus),
        cpus: one.cpus,
        spin: one.spin,
        balls: one.balls,
        work_ns: one.work.as_nanos() as u64,
        ns_per_op: spread(|sample| sample.ns),
        cpu_ns_per_op: spread(|sample| sample.cpu_ns),
        ratios: Ratios::of(&lab.series, &one.section(), one.label(), one.cpus),
    }
}
