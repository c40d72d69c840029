//! `ping-pong`: two threads wake each other in turn, on one CPU and on two.

use crate::{Entrant, Head, Lab, Ratios, rows_of};
use anyhow::Result;
use lab_measure::pool::{Gate, Pool};
use lab_measure::stats::Spread;
use lab_targets::loops::{PingPong, Side, Tally};
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;

const BUDGET_S: f64 = 6.0;
const PLAYERS: usize = 2;

/// Section of the results in `Lab::series`. The last part of a key is the number of CPUs.
pub const SECTION: &str = "ping-pong";

/// One row of the results.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Target, threads and setup.
    #[serde(flatten)]
    pub head: Head,
    /// Number of CPUs that the two threads are pinned to.
    pub cpus: usize,
    /// Time from a wake to the other thread's next wake.
    pub ns_per_op: Spread,
    /// This row's time divided by each rival's.
    #[serde(flatten)]
    pub ratios: Ratios,
}

struct Competitor {
    entrant: Entrant,
    cpus: usize,
}

/// Measures all targets, one sample of each in a round.
pub fn run(lab: &mut Lab<'_>, notes: &mut Vec<String>) -> Result<Vec<Row>> {
    if lab.cpus.len() < 2 {
        notes.push("two CPUs left out: this process may use only one CPU".to_string());
    }
    let pool = Pool::new(PLAYERS, &lab.cpus)?;
    let competitors = line_up(lab)?;
    let pace = lab.pace(BUDGET_S, competitors.len());
    let stage = format!("ping-pong: {} rows, {} rounds", competitors.len(), pace.rounds.count);
    let progress = lab.progress(&stage, pace.rounds.count);
    let samples = lab.rounds(pace.rounds, competitors.len(), &progress, |number| {
        sample_one(lab, &pool, &competitors[number], pace.sample)
    })?;
    drop(progress);
    for (one, samples) in competitors.iter().zip(&samples) {
        lab.series.put((SECTION, one.entrant.name.text(), one.cpus), samples.clone());
    }
    Ok(rows_of(&competitors, &samples, |one, samples| row(lab, one, samples)))
}

fn line_up(lab: &Lab<'_>) -> Result<Vec<Competitor>> {
    let mut competitors = Vec::new();
    for cpus in 1..=lab.cpus.len().min(2) {
        for name in lab.sleeping_targets() {
            competitors.push(Competitor { entrant: lab.small_table(name, PLAYERS)?, cpus });
        }
    }
    Ok(competitors)
}

/// One sample: nanoseconds from a wake to the next.
fn sample_one(lab: &Lab<'_>, pool: &Pool, one: &Competitor, length: Duration) -> Result<f64> {
    one.entrant.subject.make_ready();
    let (gate, words) = (Gate::new(PLAYERS), Arc::new(PingPong::default()));
    let job = {
        let (subject, gate) = (one.entrant.subject.clone(), gate.clone());
        move |worker: usize| {
            let side = if worker == 0 { Side::First } else { Side::Second };
            subject.ping_pong(&words, side, &gate)
        }
    };
    let tallies: Vec<Tally> = pool.run_on(PLAYERS, &lab.cpus[..one.cpus], job, || gate.stop_after(length))?;
    let first = &tallies[0];
    Ok((first.end - first.start).as_nanos() as f64 / first.operations.max(1) as f64)
}

fn row(lab: &Lab<'_>, one: &Competitor, samples: &[f64]) -> Row {
    Row {
        head: one.entrant.head(lab, SECTION, 1, samples.len()).on_cpus(lab, one.cpus),
        cpus: one.cpus,
        ns_per_op: Spread::of(samples),
        ratios: Ratios::of(&lab.series, SECTION, one.entrant.name.text(), one.cpus),
    }
}
