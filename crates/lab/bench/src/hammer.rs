//! `hash` and `wake`: one loop over the same words, on each target in turn.

use crate::settings::Buckets;
use crate::workers::{Sample, Workers};
use crate::{BUCKETS_MIN, Entrant, Head, Lab, Ratios, rows_of};
use anyhow::Result;
use lab_measure::stats::Spread;
use lab_targets::Policy;
use lab_targets::{Name, Operation, Shape};
use serde::Serialize;

const THREADS: [usize; 2] = [1, 2];
const HASH_BUDGET_S: f64 = 9.0;
const WAKE_BUDGET_S: f64 = 7.0;

/// Label of the row with the early return, which keeps its samples apart in `Lab::series`.
pub const EARLY_RETURN: &str = "live, early return";

/// Settings of `hash` and `wake`.
#[derive(Clone, Debug)]
pub struct Hammer {
    /// `-t`. `None` means the workload's defaults.
    pub threads: Option<Vec<usize>>,
    /// Number of words of each thread.
    pub futexes: usize,
    /// Distance between two words, in bytes.
    pub stride_bytes: usize,
}

impl Default for Hammer {
    fn default() -> Self {
        Hammer { threads: None, futexes: 1024, stride_bytes: 4 }
    }
}

/// A row of `hash` or `wake`.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Target, threads and setup.
    #[serde(flatten)]
    pub head: Head,
    /// `hash` only: whether the wait may compare the word before it locks the bucket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub early_return: Option<bool>,
    /// Distance between two words, in bytes.
    pub stride: usize,
    /// Time of one operation, as a thread sees it.
    pub ns_per_op: Spread,
    /// Rate of all threads together; median over the rounds.
    pub ops_per_sec: f64,
    /// This row's time divided by each rival's.
    #[serde(flatten)]
    pub ratios: Ratios,
}

struct Competitor {
    entrant: Entrant,
    label: &'static str,
    early_return: bool,
}

/// The name of the operation's workload.
pub fn section(operation: Operation) -> &'static str {
    match operation {
        Operation::WaitDiffers => "hash",
        Operation::WakeNoWaiter => "wake",
    }
}

/// Measures `hash` or `wake`.
pub fn run(lab: &mut Lab<'_>, operation: Operation, asked: &Hammer, notes: &mut Vec<String>) -> Result<Vec<Row>> {
    notes.extend(remark_on_targets(lab));
    let threads = lab.threads(&asked.threads, &THREADS, notes);
    let workers = Workers::new(lab, asked, threads.iter().copied().max().unwrap_or(1))?;
    let mut competitors = Vec::new();
    for threads in &threads {
        competitors.extend(line_up(lab, &workers, *threads, operation)?);
    }
    let default_s = if operation == Operation::WaitDiffers { HASH_BUDGET_S } else { WAKE_BUDGET_S };
    let pace = lab.pace(default_s, competitors.len());
    let stage = format!("{}: {} rows, {} rounds", section(operation), competitors.len(), pace.rounds.count);
    let progress = lab.progress(&stage, pace.rounds.count);
    let samples = lab.rounds(pace.rounds, competitors.len(), &progress, |number| {
        let one = &competitors[number].entrant;
        workers.sample(&one.subject, one.threads, operation, pace.sample)
    })?;
    for (one, samples) in competitors.iter().zip(&samples) {
        let times = samples.iter().map(|sample| sample.ns_per_op).collect();
        lab.series.put((section(operation), one.label, one.entrant.threads), times);
    }
    notes.extend(workers.remark());
    notes.extend(competitors.iter().filter_map(|one| remark_on_size(one, &competitors)));
    Ok(rows_of(&competitors, &samples, |one, samples| row(lab, operation, asked, one, samples)))
}

fn remark_on_targets(lab: &Lab<'_>) -> Option<String> {
    if lab.settings.shared {
        Some("shared: all schemes of the engine use the global table; parking_lot has no shared futexes".to_string())
    } else if lab.settings.targets.contains(&Name::Kernel) && !lab_targets::kernel_has_private_hash() {
        Some("kernel: no PR_FUTEX_HASH here (6.16 and later), measured on its global hash".to_string())
    } else {
        None
    }
}

/// All had the size of `live` when its table had settled. It may have grown since, and then its row is about another size.
fn remark_on_size(one: &Competitor, all: &[Competitor]) -> Option<String> {
    let Entrant { name, threads, policy, subject } = &one.entrant;
    let given = all.iter().find(|other| other.entrant.threads == *threads && other.entrant.name == Name::Fixed)?;
    let (size, given) = (subject.buckets()?, given.entrant.subject.buckets()?);
    (*name == Name::Live && *policy == Policy::Load && !one.early_return && size != given).then(|| {
        format!("live's table grew to {size} buckets with {threads} threads after the others had been given {given}")
    })
}

/// The targets for one number of threads. All get the size at which `live` settles with these threads.
fn line_up(lab: &Lab<'_>, workers: &Workers, threads: usize, operation: Operation) -> Result<Vec<Competitor>> {
    let settings = lab.settings;
    let competitor = |name: Name, policy: Policy, early_return: bool| -> Result<Competitor> {
        let shape = Shape { shared: settings.shared, early_return, ..Shape::new(settings.layout, policy) };
        let subject = lab_targets::build(name, &shape)?;
        subject.note_threads(threads);
        workers.prime(&subject, threads)?;
        lab.freeze(name, &*subject)?;
        let label = if early_return { EARLY_RETURN } else { name.text() };
        Ok(Competitor { entrant: Entrant { name, threads, policy, subject }, label, early_return })
    };
    let live = competitor(Name::Live, settings.live_policy(), false)?;
    let settled = if settings.shared { None } else { workers.settle(&live.entrant.subject, threads)? };
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

fn row(lab: &Lab<'_>, operation: Operation, asked: &Hammer, one: &Competitor, samples: &[Sample]) -> Row {
    let section = section(operation);
    let (times, rate) = times_and_rate(samples);
    Row {
        head: one.entrant.head(lab, section, asked.futexes, samples.len()),
        early_return: (operation == Operation::WaitDiffers).then_some(one.early_return),
        stride: asked.stride_bytes,
        ns_per_op: times,
        ops_per_sec: rate,
        ratios: Ratios::of(&lab.series, section, one.label, one.entrant.threads),
    }
}

/// The times of an operation over all samples of a row, and the median rate of all threads.
pub fn times_and_rate(samples: &[Sample]) -> (Spread, f64) {
    let times: Vec<_> = samples.iter().map(|sample| sample.ns_per_op).collect();
    let rates: Vec<_> = samples.iter().map(|sample| sample.ops_per_sec).collect();
    (Spread::of(&times), Spread::of(&rates).median)
}
