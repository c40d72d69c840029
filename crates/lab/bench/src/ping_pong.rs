//! `ping-pong`: two threads wake one another in turn, on one CPU and on two.

use super::{Lab, Outcome};
use crate::Row;
use anyhow::Result;
use lab_measure::pool::{Gate, Pool};
use lab_measure::sample::{self, Pace};
use lab_measure::stats::Spread;
use lab_targets::Policy;
use lab_targets::loops::{Court, Side, Tally};
use lab_targets::{Name, Subject};
use std::sync::Arc;
use std::time::Duration;

const BUDGET_S: f64 = 6.0;
const PLAYERS: usize = 2;

/// The section's name in the series; the last part of a key is the number of CPUs.
pub const SECTION: &str = "ping-pong";

struct Competitor {
    name: Name,
    cpus: usize,
    policy: Policy,
    subject: Arc<dyn Subject>,
}

/// Measures every target, interleaved.
pub fn run(lab: &mut Lab<'_>) -> Result<Outcome> {
    let mut notes = Vec::new();
    if lab.cpus.len() < 2 {
        notes.push("two CPUs are skipped: this process may use one only".to_string());
    }
    let pool = Pool::new(PLAYERS, &lab.cpus)?;
    let competitors = line_up(lab)?;
    let settings = lab.settings;
    let pace = Pace::new(lab.budget(BUDGET_S), settings.runtime_s.is_some(), settings.repeat, competitors.len());
    let stage = format!("ping-pong: {} rows, {} rounds", competitors.len(), pace.course.rounds);
    let progress = lab.progress(&stage, pace.course.rounds);
    let samples = sample::rounds(pace.course, competitors.len(), &progress, |number| {
        game(lab, &pool, &competitors[number], pace.sample)
    })?;
    drop(progress);
    for (one, samples) in competitors.iter().zip(&samples) {
        lab.series.put((SECTION, one.name.text(), one.cpus), samples.clone());
    }
    let rows = competitors.iter().zip(&samples).map(|(one, samples)| row(lab, one, samples)).collect();
    Ok(Outcome { rows, notes })
}

fn line_up(lab: &Lab<'_>) -> Result<Vec<Competitor>> {
    let mut competitors = Vec::new();
    for cpus in 1..=lab.cpus.len().min(2) {
        for name in lab.sleeping_targets() {
            let (policy, subject) = lab.small_table(name, PLAYERS)?;
            competitors.push(Competitor { name, cpus, policy, subject });
        }
    }
    Ok(competitors)
}

/// One sample: nanoseconds one way.
fn game(lab: &Lab<'_>, pool: &Pool, one: &Competitor, length: Duration) -> Result<f64> {
    one.subject.make_ready();
    let (gate, court) = (Gate::new(PLAYERS), Arc::new(Court::default()));
    let job = {
        let (subject, gate) = (one.subject.clone(), gate.clone());
        move |worker: usize| {
            let side = if worker == 0 { Side::First } else { Side::Second };
            subject.play(&court, side, &gate)
        }
    };
    let tallies: Vec<Tally> = pool.run_on(PLAYERS, &lab.cpus[..one.cpus], job, || gate.stop_after(length))?;
    let first = &tallies[0];
    Ok((first.end - first.start).as_nanos() as f64 / first.operations.max(1) as f64)
}

fn row(lab: &Lab<'_>, one: &Competitor, samples: &[f64]) -> Row {
    let key = |name: Name| (SECTION, name.text(), one.cpus);
    one.subject.make_ready();
    Row {
        futexes: 1,
        cpus: Some(one.cpus),
        buckets: one.subject.buckets(),
        policy: one.name.is_ours().then(|| super::hammer::policy_name(one.name, one.policy)),
        ns_per_op: Some(Spread::of(samples)),
        ratio_kernel: lab.series.ratio(key(one.name), key(Name::Kernel)),
        ratio_parking_lot: lab.series.ratio(key(one.name), key(Name::ParkingLot)),
        repeat: samples.len(),
        ..Row::new(lab, "ping-pong", one.name, PLAYERS).on_cpus(lab, one.cpus)
    }
}
