//! `ping-pong`: threads pass balls on in a ring, on one CPU and on two. Each pass is a store and a wake.

use crate::{Entrant, Head, Lab, Ratios, rows_of};
use anyhow::Result;
use lab_measure::clock;
use lab_measure::pool::{Gate, Pool};
use lab_measure::stats::Spread;
use lab_targets::Name;
use lab_targets::loops::{PingPong as Game, Tally};
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;

const BUDGET_S: f64 = 6.0;

/// Settings of `ping-pong`.
#[derive(Clone, Debug)]
pub struct PingPong {
    /// `-t`: how many threads pass balls on.
    pub threads: Vec<usize>,
    /// `--balls`: how many balls there are.
    pub balls: u32,
    /// `--work`: how long a player works before each pass.
    pub work: Vec<Duration>,
    /// `--spin`: how long a thread of `live (spin)` may spin before it sleeps. Zero leaves those rows out.
    pub spin: Duration,
}

impl Default for PingPong {
    fn default() -> Self {
        Self { threads: vec![2], balls: 1, work: vec![Duration::ZERO], spin: SPIN }
    }
}

/// Default of `--spin`.
pub const SPIN: Duration = Duration::from_micros(200);

/// `live` with `--spin`, in `Lab::series`.
const SPINNING: &str = "live, spin";

/// One row of the results.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Target, threads and setup.
    #[serde(flatten)]
    pub head: Head,
    /// Number of CPUs that the threads are pinned to.
    pub cpus: usize,
    /// Whether a thread may spin before it sleeps.
    pub spin: bool,
    /// How many balls the threads pass on.
    pub balls: u32,
    /// How long a thread works before each wake.
    pub work_ns: u64,
    /// Time of a pass, work included. With one ball, from a wake to the next.
    pub ns_per_op: Spread,
    /// CPU time of all threads for a pass, work included.
    pub cpu_ns_per_op: Spread,
    /// This row's time divided by each rival's.
    #[serde(flatten)]
    pub ratios: Ratios,
}

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
            (2, 1, Duration::ZERO) => "ping-pong".to_string(),
            (threads, balls, work) => format!("ping-pong {threads} {balls} {work:?}"),
        }
    }
}

/// Measures all targets, one sample of each in a round.
pub fn run(lab: &mut Lab<'_>, asked: &PingPong, notes: &mut Vec<String>) -> Result<Vec<Row>> {
    if lab.cpus.len() < 2 {
        notes.push("two CPUs left out: this process may use only one CPU".to_string());
    }
    let pool = Pool::new(asked.threads.iter().copied().max().unwrap_or(2), &lab.cpus)?;
    let competitors = line_up(lab, asked)?;
    let ticks_per_ns = 1.0 / clock::nanoseconds_per_tick();
    let pace = lab.pace(BUDGET_S, competitors.len());
    let stage = format!("ping-pong: {} rows, {} rounds", competitors.len(), pace.rounds.count);
    let progress = lab.progress(&stage, pace.rounds.count);
    let samples = lab.rounds(pace.rounds, competitors.len(), &progress, |number| {
        sample_one(lab, &pool, &competitors[number], ticks_per_ns, pace.sample)
    })?;
    drop(progress);
    for (one, samples) in competitors.iter().zip(&samples) {
        let times = samples.iter().map(|sample| sample.ns).collect();
        lab.series.put((&one.section(), one.label(), one.cpus), times);
    }
    Ok(rows_of(&competitors, &samples, |one, samples| row(lab, one, samples)))
}

fn line_up(lab: &Lab<'_>, asked: &PingPong) -> Result<Vec<Competitor>> {
    let mut competitors = Vec::new();
    for (&threads, &work) in asked.threads.iter().flat_map(|threads| asked.work.iter().map(move |work| (threads, work)))
    {
        for cpus in 1..=lab.cpus.len().min(2) {
            for name in lab.sleeping_targets() {
                let spins = (name == Name::Live && !asked.spin.is_zero()).then_some(asked.spin);
                for spin in [Duration::ZERO].into_iter().chain(spins) {
                    let entrant = lab.small_spinning_table(name, threads, spin)?;
                    competitors.push(Competitor { entrant, cpus, spin: !spin.is_zero(), balls: asked.balls, work });
                }
            }
        }
    }
    Ok(competitors)
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
        head: one.entrant.head(lab, "ping-pong", 1, samples.len()).on_cpus(lab, one.cpus),
        cpus: one.cpus,
        spin: one.spin,
        balls: one.balls,
        work_ns: one.work.as_nanos() as u64,
        ns_per_op: spread(|sample| sample.ns),
        cpu_ns_per_op: spread(|sample| sample.cpu_ns),
        ratios: Ratios::of(&lab.series, &one.section(), one.label(), one.cpus),
    }
}
