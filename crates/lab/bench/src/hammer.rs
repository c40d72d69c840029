//! The loop of `hash` and `wake` over the same words, on each target in turn; their rows and tables.

use crate::flags::Words;
use crate::rows::{self, shown};
use crate::settings::Buckets;
use crate::workers::{Sample, Workers};
use crate::{BUCKETS_MIN, Entrant, Head, Lab, Ratios, stage};
use anyhow::Result;
use lab_measure::stats::Spread;
use lab_targets::Policy;
use lab_targets::{Name, Operation, Shape};
use lab_values::List;
use serde::Serialize;

const THREADS: [usize; 2] = [1, 2];
const HASH_BUDGET_S: f64 = 9.0;
const WAKE_BUDGET_S: f64 = 7.0;

/// Label of the row with the early return, which keeps its samples apart in `Lab::series`.
pub const EARLY_RETURN: &str = "live, early return";

/// A row of `hash` or `wake`. The help has a line on each field.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Row {
    #[serde(flatten)]
    pub head: Head,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nwakes: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub section: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub early_return: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stride: Option<usize>,
    pub ns_per_op: Spread,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ops_per_sec: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share_of_best: Option<f64>,
    #[serde(flatten)]
    pub ratios: Ratios,
}

impl Row {
    /// A row with what all have.
    pub fn new(head: Head, ns_per_op: Spread) -> Row {
        Row { head, ns_per_op, ..Row::default() }
    }

    /// A row of hammered words.
    pub fn of_samples(head: Head, words: &Words, samples: &[Sample]) -> Row {
        let (times, rate) = times_and_rate(samples);
        Row { stride: Some(words.stride), ops_per_sec: Some(rate), ..Row::new(head, times) }
    }
}

shown!(Row, |row| row.ns_per_op.median, row.ratios.over(), (row.early_return == Some(true)).then_some("early return"));

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
pub fn run(
    lab: &mut Lab<'_>,
    operation: Operation,
    threads: &Option<List<usize>>,
    words: &Words,
    notes: &mut Vec<String>,
) -> Result<Vec<Row>> {
    notes.extend(remark_on_targets(lab));
    let threads = lab.threads(threads, &THREADS, notes);
    let workers = Workers::new(lab, words, threads.iter().copied().max().unwrap_or(1))?;
    let mut competitors = Vec::new();
    for threads in &threads {
        competitors.extend(line_up(lab, &workers, *threads, operation)?);
    }
    let default_s = if operation == Operation::WaitDiffers { HASH_BUDGET_S } else { WAKE_BUDGET_S };
    let (section, pace) = (section(operation), lab.pace(default_s, competitors.len()));
    let rows = lab.measure(
        &stage(section, &competitors),
        pace.rounds,
        &competitors,
        |_, Competitor { entrant, .. }| workers.sample(&entrant.subject, entrant.threads, operation, pace.sample),
        (|one| (section.into(), one.label.into(), one.entrant.threads), |sample: &Sample| sample.ns_per_op),
        |lab, one, samples| Row {
            early_return: (operation == Operation::WaitDiffers).then_some(one.early_return),
            ratios: Ratios::of(&lab.series, section, one.label, one.entrant.threads),
            ..Row::of_samples(one.entrant.head(lab, section, words.number.futexes, samples.len()), words, samples)
        },
    )?;
    notes.extend(workers.remark());
    notes.extend(competitors.iter().filter_map(|one| remark_on_size(one, &competitors)));
    Ok(rows)
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

/// The times of an operation over all samples of a row, and the median rate of all threads.
pub fn times_and_rate(samples: &[Sample]) -> (Spread, f64) {
    let times: Vec<_> = samples.iter().map(|sample| sample.ns_per_op).collect();
    let rates: Vec<_> = samples.iter().map(|sample| sample.ops_per_sec).collect();
    (Spread::of(&times), Spread::of(&rates).median)
}

/// The table.
pub fn text(rows: &[Row]) -> String {
    rows::table(rows, 1, |row| {
        let mut cells = vec![rows::target(row), rows::threads(&row.head), rows::buckets(&row.head)];
        cells.extend(rows::spread("ns/op", &row.ns_per_op, 1));
        cells.push(rows::mops(row.ops_per_sec.unwrap_or(f64::NAN), 1));
        cells.extend(rows::ratios(&row.ratios));
        cells
    })
}
