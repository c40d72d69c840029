//! Any mix of targets, layouts, sizes and threads, hammered in turn: what the ratios of the report stand on.

use super::Effort;
use crate::Row;
use crate::{Lab, arena::Arena, section};
use anyhow::Result;
use lab_measure::sample::{self, Pace};
use lab_measure::stats::Spread;
use lab_targets::Policy;
use lab_targets::{Layout, Name, Operation, Shape, Subject};
use std::sync::Arc;
use std::time::Duration;

/// One line to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spec {
    /// Whose table.
    pub name: Name,
    /// Of our tables.
    pub layout: Layout,
    /// Its size; `Load` settles first.
    pub policy: Policy,
    /// That hammer.
    pub threads: usize,
    /// What they do.
    pub operation: Operation,
    /// Shared futexes.
    pub shared: bool,
}

impl Spec {
    /// Waits on private words, in the default layout.
    pub fn waits(name: Name, policy: Policy, threads: usize) -> Spec {
        Spec { name, layout: Layout::Lean, policy, threads, operation: Operation::WaitDiffers, shared: false }
    }
}

/// One line that is.
pub struct Measured {
    /// What was asked for.
    pub spec: Spec,
    /// Of all threads together, operations a second.
    pub rate: Spread,
    /// As `bench --json` prints it.
    pub row: Row,
}

/// Measures all of them, interleaved; what is left out and why comes second.
pub fn run(
    lab: &Lab<'_>,
    stage: &str,
    specs: &[Spec],
    effort: Effort,
    usual_s: f64,
) -> Result<(Vec<Measured>, Vec<String>)> {
    let most = specs.iter().map(|spec| spec.threads).max().unwrap_or(1);
    let arena = Arena::new(lab, most)?;
    let subjects = specs.iter().map(|spec| subject(&arena, spec)).collect::<Result<Vec<_>>>()?;
    let rounds = effort.is_quick().then_some(1);
    let pace = Pace::new(Duration::from_secs_f64(effort.seconds(usual_s)), true, rounds, specs.len());
    let progress = lab.progress(stage, pace.course.rounds);
    let samples = sample::rounds(pace.course, specs.len(), &progress, |number| {
        let spec = &specs[number];
        arena.sample(&subjects[number], spec.threads, spec.operation, pace.sample)
    })?;
    let measured = specs.iter().zip(&subjects).zip(&samples).filter(|(_, samples)| !samples.is_empty());
    let measured = measured.map(|((spec, subject), samples)| {
        let of = |figure: fn(&crate::arena::Sample) -> f64| Spread::of(&samples.iter().map(figure).collect::<Vec<_>>());
        let (times, rate) = (of(|sample| sample.ns_per_op), of(|sample| sample.ops_per_sec));
        Measured { spec: *spec, rate, row: row(lab, spec, &**subject, times, rate.median, samples.len()) }
    });
    Ok((measured.collect(), arena.remark().into_iter().collect()))
}

fn subject(arena: &Arena, spec: &Spec) -> Result<Arc<dyn Subject>> {
    let shape = Shape { layout: spec.layout, policy: spec.policy, shared: spec.shared, early_return: false };
    let subject = lab_targets::build(spec.name, &shape)?;
    subject.note_threads(spec.threads);
    arena.prime(&subject, spec.threads)?;
    if spec.policy == Policy::Load && spec.name == Name::Live {
        arena.settle(&subject, spec.threads)?;
    }
    Ok(subject)
}

fn row(lab: &Lab<'_>, spec: &Spec, subject: &dyn Subject, times: Spread, rate: f64, rounds: usize) -> Row {
    subject.make_ready();
    let row = Row::new(lab, section(spec.operation), spec.name, spec.threads);
    Row {
        futexes: lab.settings.futexes,
        buckets: subject.buckets(),
        policy: spec.name.is_ours().then(|| spec.policy.to_string()),
        layout: spec.name.is_ours().then(|| spec.layout.to_string()),
        shared: spec.shared,
        early_return: (spec.operation == Operation::WaitDiffers).then_some(false),
        stride: Some(lab.settings.stride_bytes),
        ns_per_op: Some(times),
        ops_per_sec: Some(rate),
        repeat: rounds,
        ..row
    }
}
