//! `hash` and `wake`: the same loop over the same words on every target, interleaved.

use super::arena::{Arena, Sample};
use super::{BUCKETS_MIN, Lab, Outcome};
use crate::Row;
use crate::settings::Buckets;
use anyhow::Result;
use lab_measure::sample::{self, Pace};
use lab_measure::stats::Spread;
use lab_targets::Policy;
use lab_targets::{Name, Operation, Shape, Subject};
use std::sync::Arc;

const THREADS: [usize; 2] = [1, 2];
const HASH_BUDGET_S: f64 = 9.0;
const WAKE_BUDGET_S: f64 = 7.0;

/// The label of the row with the early return, which must not mix with the others.
pub const EARLY_RETURN: &str = "live, early return";

struct Competitor {
    name: Name,
    label: &'static str,
    threads: usize,
    policy: Policy,
    early_return: bool,
    subject: Arc<dyn Subject>,
}

/// The name of an operation's workload.
pub fn section(operation: Operation) -> &'static str {
    match operation {
        Operation::WaitDiffers => "hash",
        Operation::WakeNobody => "wake",
    }
}

/// Measures one of the two.
pub fn run(lab: &mut Lab<'_>, operation: Operation) -> Result<Outcome> {
    let mut notes = notes(lab);
    let threads = lab.threads(&THREADS, &mut notes);
    let arena = Arena::new(lab, threads.iter().copied().max().unwrap_or(1))?;
    let mut competitors = Vec::new();
    for threads in &threads {
        competitors.extend(line_up(lab, &arena, *threads, operation)?);
    }
    let default_s = if operation == Operation::WaitDiffers { HASH_BUDGET_S } else { WAKE_BUDGET_S };
    let settings = lab.settings;
    let pace = Pace::new(lab.budget(default_s), settings.runtime_s.is_some(), settings.repeat, competitors.len());
    let stage = format!("{}: {} rows, {} rounds", section(operation), competitors.len(), pace.course.rounds);
    let progress = lab.progress(&stage, pace.course.rounds);
    let samples = sample::rounds(pace.course, competitors.len(), &progress, |number| {
        let one = &competitors[number];
        arena.sample(&one.subject, one.threads, operation, pace.sample)
    })?;
    for (one, samples) in competitors.iter().zip(&samples) {
        let times = samples.iter().map(|sample| sample.ns_per_op).collect();
        lab.series.put((section(operation), one.label, one.threads), times);
    }
    let rows = competitors.iter().zip(&samples).map(|(one, samples)| row(lab, operation, one, samples));
    let rows = rows.collect();
    notes.extend(arena.remark());
    Ok(Outcome { rows, notes })
}

fn notes(lab: &Lab<'_>) -> Vec<String> {
    let (settings, mut notes) = (lab.settings, Vec::new());
    if settings.shared {
        notes
            .push("shared: our schemes all use the system's global table; parking_lot knows one kind only".to_string());
    } else if settings.targets.contains(&Name::Kernel) && !lab_targets::kernel_has_private_hash() {
        notes.push("kernel: no PR_FUTEX_HASH here (6.16 and later), measured on its global hash".to_string());
    }
    notes
}

/// The targets for one number of threads, all with the size that `live` settles at under these threads.
fn line_up(lab: &Lab<'_>, arena: &Arena, threads: usize, operation: Operation) -> Result<Vec<Competitor>> {
    let settings = lab.settings;
    let competitor = |name: Name, policy: Policy, early_return: bool| -> Result<Competitor> {
        let shape = Shape { layout: settings.layout, policy, shared: settings.shared, early_return };
        let subject = lab_targets::build(name, &shape)?;
        subject.note_threads(threads);
        arena.prime(&subject, threads)?;
        lab.freeze(name, &*subject)?;
        let label = if early_return { EARLY_RETURN } else { name.text() };
        Ok(Competitor { name, label, threads, policy, early_return, subject })
    };
    let live = competitor(Name::Live, settings.live_policy(), false)?;
    let settled = if settings.shared { None } else { arena.settle(&live.subject, threads)? };
    let buckets = match settings.buckets {
        Buckets::Exactly(buckets) => buckets,
        Buckets::Auto => settled.unwrap_or(0).max(BUCKETS_MIN),
    };
    let mut live = Some(live);
    let mut competitors = Vec::new();
    for name in &settings.targets {
        match live.take_if(|_| *name == Name::Live) {
            Some(live) => {
                competitors.push(live);
                if operation == Operation::WaitDiffers {
                    competitors.push(competitor(Name::Live, settings.live_policy(), true)?);
                }
            }
            None => competitors.push(competitor(*name, Policy::Fixed(buckets), false)?),
        }
    }
    Ok(competitors)
}

fn row(lab: &Lab<'_>, operation: Operation, one: &Competitor, samples: &[Sample]) -> Row {
    let section = section(operation);
    let times: Vec<_> = samples.iter().map(|sample| sample.ns_per_op).collect();
    let rates: Vec<_> = samples.iter().map(|sample| sample.ops_per_sec).collect();
    let key = |label| (section, label, one.threads);
    one.subject.make_ready();
    Row {
        futexes: lab.settings.futexes,
        buckets: one.subject.buckets(),
        policy: one.name.is_ours().then(|| policy_name(one.name, one.policy)),
        early_return: (operation == Operation::WaitDiffers).then_some(one.early_return),
        stride: Some(lab.settings.stride_bytes),
        ns_per_op: Some(Spread::of(&times)),
        ops_per_sec: Some(Spread::of(&rates).median),
        ratio_kernel: lab.series.ratio(key(one.label), key(Name::Kernel.text())),
        ratio_parking_lot: lab.series.ratio(key(one.label), key(Name::ParkingLot.text())),
        repeat: samples.len(),
        ..Row::new(lab, section, one.name, one.threads)
    }
}

/// What a row says of its policy.
pub fn policy_name(name: Name, policy: Policy) -> String {
    if name == Name::Global { "global".to_string() } else { policy.to_string() }
}
