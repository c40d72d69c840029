//! Hammers any mix of targets, layouts, sizes and threads in turn, for the ratios of the report.

use super::Effort;
use crate::flags::Words;
use crate::hammer::{Row, section};
use crate::workers::{Sample, Workers};
use crate::workload::plain;
use crate::{Head, Lab};
use anyhow::Result;
use lab_measure::sample::Pace;
use lab_measure::stats::Spread;
use lab_targets::Policy;
use lab_targets::{Layout, Name, Operation, Shape, Subject};
use std::sync::Arc;
use std::time::Duration;

/// One line to measure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spec {
    /// The target.
    pub name: Name,
    /// Bucket layout of the engine's table.
    pub layout: Layout,
    /// Size policy. With `Load` the size settles first.
    pub policy: Policy,
    /// Number of threads that hammer.
    pub threads: usize,
    /// The operation that they repeat.
    pub operation: Operation,
    /// Whether the futexes are shared.
    pub shared: bool,
}

impl Spec {
    /// Waits on private words, in the default layout.
    pub fn waits(name: Name, policy: Policy, threads: usize) -> Spec {
        Spec { name, layout: Layout::Lean, policy, threads, operation: Operation::WaitDiffers, shared: false }
    }
}

/// One measured line.
pub struct Measured {
    /// The request.
    pub spec: Spec,
    /// Operations per second of all threads together.
    pub rate: Spread,
    /// The row as `bench --json` prints it.
    pub row: Row,
}

/// Measures all lines, one sample of each in a round. The second result is one note for each that was left out.
pub fn run(
    lab: &Lab<'_>,
    stage: &str,
    specs: &[Spec],
    effort: Effort,
    usual_s: f64,
) -> Result<(Vec<Measured>, Vec<String>)> {
    let most = specs.iter().map(|spec| spec.threads).max().unwrap_or(1);
    let workers = Workers::new(lab, &plain::<Words>(), most)?;
    let subjects = specs.iter().map(|spec| subject(&workers, spec)).collect::<Result<Vec<_>>>()?;
    let rounds = effort.is_quick().then_some(1);
    let pace = Pace::new(Duration::from_secs_f64(effort.seconds(usual_s)), true, rounds, specs.len());
    let progress = lab.progress(stage, pace.rounds.count);
    let samples = lab.rounds(pace.rounds, specs.len(), &progress, |number| {
        let spec = &specs[number];
        workers.sample(&subjects[number], spec.threads, spec.operation, pace.sample)
    })?;
    let measured = specs.iter().zip(&subjects).zip(&samples).filter(|(_, samples)| !samples.is_empty());
    let measured = measured.map(|((spec, subject), samples)| {
        let rates: Vec<_> = samples.iter().map(|sample| sample.ops_per_sec).collect();
        Measured { spec: *spec, rate: Spread::of(&rates), row: row(lab, spec, &**subject, samples) }
    });
    Ok((measured.collect(), workers.remark().into_iter().collect()))
}

fn subject(workers: &Workers, spec: &Spec) -> Result<Arc<dyn Subject>> {
    let shape = Shape { shared: spec.shared, ..Shape::new(spec.layout, spec.policy) };
    let subject = lab_targets::build(spec.name, &shape)?;
    subject.note_threads(spec.threads);
    workers.prime(&subject, spec.threads)?;
    if spec.policy == Policy::Load && spec.name == Name::Live {
        workers.settle(&subject, spec.threads)?;
    }
    Ok(subject)
}

fn row(lab: &Lab<'_>, spec: &Spec, subject: &dyn Subject, samples: &[Sample]) -> Row {
    subject.make_ready();
    let words: Words = plain();
    let head = Head {
        futexes: words.number.futexes,
        buckets: subject.buckets(),
        policy: spec.name.is_ours().then(|| spec.policy.to_string()),
        layout: spec.name.is_ours().then(|| spec.layout.to_string()),
        shared: spec.shared,
        repeat: samples.len(),
        ..Head::new(lab, section(spec.operation), spec.name, spec.threads)
    };
    let early_return = (spec.operation == Operation::WaitDiffers).then_some(false);
    Row { early_return, ..Row::of_samples(head, &words, samples) }
}
