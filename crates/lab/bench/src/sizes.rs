//! `live` under its load policy, from cold, against every explicit size: does the policy find the best one?

use super::arena::Arena;
use super::{Lab, Outcome};
use crate::Row;
use anyhow::Result;
use lab_measure::sample::{self, Pace};
use lab_measure::series::Series;
use lab_measure::stats::Spread;
use lab_targets::Policy;
use lab_targets::{Name, Operation, Shape, Subject};
use std::sync::Arc;

const SIZES: [usize; 6] = [16, 64, 256, 1024, 4096, 16384];
const BUDGET_S: f64 = 9.0;

/// The section's name in the rows and the series.
pub const SECTION: &str = "sizes";

/// Measures all sizes interleaved, with two threads where there are two CPUs.
pub fn run(lab: &mut Lab<'_>) -> Result<Outcome> {
    let threads = lab.cpus.len().min(2);
    let arena = Arena::new(lab, threads)?;
    let policies: Vec<_> = SIZES.into_iter().map(Policy::Fixed).chain([Policy::Load]).collect();
    let subjects = policies.iter().map(|policy| cold(lab, &arena, *policy, threads)).collect::<Result<Vec<_>>>()?;
    let settings = lab.settings;
    let pace = Pace::new(lab.budget(BUDGET_S), settings.runtime_s.is_some(), settings.repeat, subjects.len());
    let progress =
        lab.progress(&format!("sizes: {} rows, {} rounds", subjects.len(), pace.course.rounds), pace.course.rounds);
    let samples = sample::rounds(pace.course, subjects.len(), &progress, |number| {
        arena.sample(&subjects[number], threads, Operation::WaitDiffers, pace.sample)
    })?;
    for (policy, samples) in policies.iter().zip(&samples) {
        let rates = samples.iter().map(|sample| sample.ops_per_sec).collect();
        lab.series.put((SECTION, &policy.to_string(), threads), rates);
    }
    let rows = policies.iter().zip(&subjects).zip(&samples).map(|((policy, subject), samples)| {
        let label = policy.to_string();
        let times: Vec<_> = samples.iter().map(|sample| sample.ns_per_op).collect();
        Row {
            section: Some(SECTION),
            futexes: settings.futexes,
            buckets: subject.buckets(),
            early_return: Some(false),
            stride: Some(settings.stride_bytes),
            ns_per_op: Some(Spread::of(&times)),
            ops_per_sec: lab.series.median((SECTION, &label, threads)),
            share_of_best: share_of_best(&lab.series, &label, threads),
            policy: Some(label),
            repeat: samples.len(),
            ..Row::new(lab, "hash", Name::Live, threads)
        }
    });
    Ok(Outcome { rows: rows.collect(), notes: arena.remark().into_iter().collect() })
}

fn cold(lab: &Lab<'_>, arena: &Arena, policy: Policy, threads: usize) -> Result<Arc<dyn Subject>> {
    let shape = Shape { layout: lab.settings.layout, policy, shared: false, early_return: false };
    let subject = lab_targets::build(Name::Live, &shape)?;
    if policy == Policy::Load {
        arena.settle(&subject, threads)?
    } else {
        None
    };
    arena.prime(&subject, threads)?;
    Ok(subject)
}

/// The throughput over that of the best explicit size, pairwise.
///
/// The best one is chosen by its median over all rounds: the best of each round would be the luckiest.
pub fn share_of_best(series: &Series, label: &str, threads: usize) -> Option<f64> {
    let sizes = SIZES.map(|size| size.to_string());
    let rate = |size: &String| series.median((SECTION, size, threads)).unwrap_or(0.0);
    let best = sizes.iter().max_by(|a, b| rate(a).total_cmp(&rate(b)))?;
    series.ratio((SECTION, label, threads), (SECTION, best, threads))
}
