//! Compares `live` under its load policy, from a new table, with all fixed sizes: does the policy find the best one?

use crate::hammer::{Hammer, times_and_rate};
use crate::workers::{Sample, Workers};
use crate::{Entrant, Head, Lab, rows_of};
use anyhow::Result;
use lab_measure::series::Series;
use lab_measure::stats::Spread;
use lab_targets::Policy;
use lab_targets::{Name, Operation, Shape};
use serde::Serialize;

const SIZES: [usize; 6] = [16, 64, 256, 1024, 4096, 16384];
const BUDGET_S: f64 = 9.0;

/// Name of the section in the rows and in `Lab::series`.
pub const SECTION: &str = "sizes";

/// One row of the results.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The target. Its policy is the size.
    #[serde(flatten)]
    pub head: Head,
    /// Always `sizes`.
    pub section: &'static str,
    /// Always false.
    pub early_return: bool,
    /// Distance between two words, in bytes.
    pub stride: usize,
    /// Time of one operation, as a thread sees it.
    pub ns_per_op: Spread,
    /// Rate of all threads together; median over the rounds.
    pub ops_per_sec: f64,
    /// This row's rate divided by that of the best fixed size, round by round.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share_of_best: Option<f64>,
}

/// Measures all sizes, one sample of each in a round, with two threads if there are two CPUs.
pub fn run(lab: &mut Lab<'_>, asked: &Hammer, notes: &mut Vec<String>) -> Result<Vec<Row>> {
    let threads = lab.cpus.len().min(2);
    let workers = Workers::new(lab, asked, threads)?;
    let policies = SIZES.into_iter().map(Policy::Fixed).chain([Policy::Load]);
    let entrants = policies.map(|policy| cold(lab, &workers, policy, threads)).collect::<Result<Vec<_>>>()?;
    let pace = lab.pace(BUDGET_S, entrants.len());
    let stage = format!("hash by size: {} rows, {} rounds", entrants.len(), pace.rounds.count);
    let progress = lab.progress(&stage, pace.rounds.count);
    let samples = lab.rounds(pace.rounds, entrants.len(), &progress, |number| {
        workers.sample(&entrants[number].subject, threads, Operation::WaitDiffers, pace.sample)
    })?;
    for (one, samples) in entrants.iter().zip(&samples) {
        let rates = samples.iter().map(|sample| sample.ops_per_sec).collect();
        lab.series.put((SECTION, &one.policy.to_string(), threads), rates);
    }
    notes.extend(workers.remark());
    Ok(rows_of(&entrants, &samples, |one, samples| row(lab, asked, one, samples)))
}

fn row(lab: &Lab<'_>, asked: &Hammer, one: &Entrant, samples: &[Sample]) -> Row {
    let (times, rate) = times_and_rate(samples);
    Row {
        head: one.head(lab, "hash", asked.futexes, samples.len()),
        section: SECTION,
        early_return: false,
        stride: asked.stride_bytes,
        ns_per_op: times,
        ops_per_sec: rate,
        share_of_best: share_of_best(&lab.series, &one.policy.to_string(), one.threads),
    }
}

fn cold(lab: &Lab<'_>, workers: &Workers, policy: Policy, threads: usize) -> Result<Entrant> {
    let shape = Shape::new(lab.settings.layout, policy);
    let subject = lab_targets::build(Name::Live, &shape)?;
    if policy == Policy::Load {
        workers.settle(&subject, threads)?;
    }
    workers.prime(&subject, threads)?;
    Ok(Entrant { name: Name::Live, threads, policy, subject })
}

/// The rate divided by that of the best fixed size: the median over the rounds.
///
/// The best size is the one with the best median. The best of each round would be the luckiest.
pub fn share_of_best(series: &Series, label: &str, threads: usize) -> Option<f64> {
    let sizes = SIZES.map(|size| size.to_string());
    let rate = |size: &String| series.median((SECTION, size, threads)).unwrap_or(0.0);
    let best = sizes.iter().max_by(|a, b| rate(a).total_cmp(&rate(b)))?;
    series.ratio((SECTION, label, threads), (SECTION, best, threads))
}
