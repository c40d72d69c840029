//! `wasm`: waits on a word that differs and notifies where nobody waits, in a linear memory: ours beside wasmtime's.
//!
//! Both sides check the alignment and the bounds of each address. In the case `words` each thread walks over words of its
//! own, perf's shape; in the case `one` all threads use the same word.

use super::arena::{self, Sample};
use super::{BUCKETS_MIN, Lab, Outcome};
use crate::Row;
use crate::settings::Buckets;
use anyhow::{Result, ensure};
use lab_measure::pool::{Gate, Pool};
use lab_measure::sample::{self, Pace};
use lab_measure::stats::Spread;
use lab_targets::Policy;
use lab_targets::loops::Tally;
use lab_targets::wasm::{self, Addresses, Subject};
use lab_targets::{Name, Operation, Shape};
use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

const THREADS: [usize; 2] = [1, 2];
/// Half as long where the rival is missing.
const BUDGET_S: f64 = if cfg!(feature = "wasmtime") { 6.0 } else { 3.0 };
/// Each thread's words begin on a page of their own.
const APART: u64 = 4096;
/// For how long a table is hammered before it is measured, so that its size is found.
const SETTLE: Duration = Duration::from_millis(300);

/// The rival's name.
pub const WASMTIME: &str = "wasmtime";

/// Which addresses the threads use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// Each thread many words of its own.
    Words,
    /// All threads one word.
    One,
}

impl Case {
    fn text(self) -> &'static str {
        match self {
            Case::Words => "words",
            Case::One => "one",
        }
    }
}

/// The section of the series.
pub fn section(operation: Operation, case: Case) -> String {
    format!("wasm {} {}", name(operation), case.text())
}

fn name(operation: Operation) -> &'static str {
    match operation {
        Operation::WaitDiffers => "wait",
        Operation::WakeNobody => "notify",
    }
}

/// One row to be.
struct Competitor {
    /// None: the rival.
    policy: Option<Policy>,
    early_return: bool,
    threads: usize,
    case: Case,
    operation: Operation,
    subject: Arc<dyn Subject>,
}

impl Competitor {
    fn label(&self) -> &'static str {
        match (self.policy, self.early_return) {
            (None, _) => WASMTIME,
            (Some(_), false) => Name::Live.text(),
            (Some(_), true) => super::hammer::EARLY_RETURN,
        }
    }
}

struct Ring<'a> {
    lab: &'a Lab<'a>,
    pool: Pool,
    disturbed: Cell<usize>,
    samples: Cell<usize>,
}

/// Measures both instructions, interleaved.
pub fn run(lab: &mut Lab<'_>) -> Result<Outcome> {
    let mut notes = Vec::new();
    let threads = lab.threads(&THREADS, &mut notes);
    let pool = Pool::new(threads.iter().copied().max().unwrap_or(1), &lab.cpus)?;
    let ring = Ring { lab, pool, disturbed: Cell::new(0), samples: Cell::new(0) };
    let competitors = line_up(&ring, &threads, &mut notes)?;
    if competitors.is_empty() {
        return Ok(Outcome { rows: Vec::new(), notes });
    }
    let settings = lab.settings;
    let pace = Pace::new(lab.budget(BUDGET_S), settings.runtime_s.is_some(), settings.repeat, competitors.len());
    let stage = format!("wasm: {} rows, {} rounds", competitors.len(), pace.course.rounds);
    let progress = lab.progress(&stage, pace.course.rounds);
    let samples = sample::rounds(pace.course, competitors.len(), &progress, |number| {
        ring.sample(&competitors[number], pace.sample)
    })?;
    drop(progress);
    notes.extend(arena::remark(ring.disturbed.get(), ring.samples.get()));
    for (one, samples) in competitors.iter().zip(&samples) {
        let times = samples.iter().map(|sample| sample.ns_per_op).collect();
        lab.series.put((&section(one.operation, one.case), one.label(), one.threads), times);
    }
    let rows = competitors.iter().zip(&samples).map(|(one, samples)| row(lab, one, samples)).collect();
    Ok(Outcome { rows, notes })
}

fn line_up(ring: &Ring<'_>, threads: &[usize], notes: &mut Vec<String>) -> Result<Vec<Competitor>> {
    use Operation::{WaitDiffers, WakeNobody};
    let settings = ring.lab.settings;
    let has_live = settings.targets.contains(&Name::Live);
    if !has_live {
        notes.push("ours left out: of our schemes, live alone is measured here".to_string());
    }
    if !cfg!(feature = "wasmtime") {
        let command = "cargo run --release -p lab --features wasmtime -- bench wasm";
        notes.push(format!("wasmtime left out, which this build is without: {command}"));
    }
    let policy = match settings.buckets {
        Buckets::Exactly(buckets) => Policy::Fixed(buckets.max(BUCKETS_MIN)),
        Buckets::Auto => settings.live_policy(),
    };
    let mut competitors = Vec::new();
    for (case, threads) in [Case::Words, Case::One].into_iter().flat_map(|case| threads.iter().map(move |t| (case, *t)))
    {
        let bytes = ring.addresses(case, threads - 1).end();
        let mut enter = |policy, early_return, operations: &[Operation], subject: Arc<dyn Subject>| {
            for operation in operations.iter().copied() {
                let subject = subject.clone();
                competitors.push(Competitor { policy, early_return, threads, case, operation, subject });
            }
        };
        if has_live {
            for (early_return, operations) in [(false, &[WaitDiffers, WakeNobody][..]), (true, &[WaitDiffers])] {
                let shape = Shape { layout: settings.layout, policy, shared: settings.shared, early_return };
                let subject = wasm::ours(&shape, bytes)?;
                ring.settle(&subject, case, threads)?;
                enter(Some(policy), early_return, operations, subject);
            }
        }
        if let Some(subject) = wasm::wasmtime(bytes)? {
            enter(None, false, &[WaitDiffers, WakeNobody], subject);
        }
    }
    Ok(competitors)
}

impl Ring<'_> {
    /// Those of a worker.
    fn addresses(&self, case: Case, worker: usize) -> Addresses {
        let settings = self.lab.settings;
        let (count, stride) = (settings.futexes as u64, settings.stride_bytes as u64);
        match case {
            Case::Words => {
                let first = worker as u64 * (count * stride).next_multiple_of(APART);
                Addresses { first, stride, count }
            }
            Case::One => Addresses { first: 0, stride, count: 1 },
        }
    }

    /// One sample; once more where a thread had no CPU for a while.
    fn sample(&self, one: &Competitor, length: Duration) -> Result<Sample> {
        let mut tallies = Vec::new();
        let mut disturbed = true;
        // Where threads sleep for a lock of the runtime they have no CPU either, and that counts.
        let sleeps = one.policy.is_none() && one.threads > 1;
        for _ in 0..arena::TRIES {
            tallies = self.hammer(&one.subject, one.case, one.threads, one.operation, length)?;
            disturbed = !sleeps && one.threads <= self.lab.cpus.len() && arena::is_disturbed(&tallies);
            if !disturbed {
                break;
            }
        }
        self.samples.update(|count| count + 1);
        self.disturbed.update(|count| count + usize::from(disturbed));
        Ok(Sample::of(&tallies))
    }

    /// Hammers with waits, so that the table exists and has found its size.
    fn settle(&self, subject: &Arc<dyn Subject>, case: Case, threads: usize) -> Result<()> {
        let (start, step) = (Instant::now(), Duration::from_millis(15));
        let mut size = None;
        while size != subject.buckets() || start.elapsed() < SETTLE {
            size = subject.buckets();
            self.hammer(subject, case, threads, Operation::WaitDiffers, step)?;
        }
        Ok(())
    }

    fn hammer(
        &self,
        subject: &Arc<dyn Subject>,
        case: Case,
        threads: usize,
        operation: Operation,
        length: Duration,
    ) -> Result<Vec<Tally>> {
        let gate = Gate::new(threads);
        let job = {
            let (subject, gate) = (subject.clone(), gate.clone());
            let addresses: Vec<_> = (0..threads).map(|worker| self.addresses(case, worker)).collect();
            move |worker: usize| subject.hammer(operation, addresses[worker], &gate)
        };
        let tallies = self.pool.run(threads, job, || gate.stop_after(length))?;
        let failed: u64 = tallies.iter().map(|tally| tally.failed).sum();
        ensure!(failed == 0, "{failed} operations of wasm {} did not end as they must", name(operation));
        Ok(tallies)
    }
}

fn row(lab: &Lab<'_>, one: &Competitor, samples: &[Sample]) -> Row {
    let times: Vec<_> = samples.iter().map(|sample| sample.ns_per_op).collect();
    let rates: Vec<_> = samples.iter().map(|sample| sample.ops_per_sec).collect();
    let section = section(one.operation, one.case);
    let is_wait = one.operation == Operation::WaitDiffers;
    let row = match one.policy {
        Some(policy) => Row {
            policy: Some(policy.to_string()),
            early_return: is_wait.then_some(one.early_return),
            ..Row::new(lab, "wasm", Name::Live, one.threads)
        },
        None => Row::of_rival(lab, "wasm", WASMTIME, one.threads),
    };
    let count = if one.case == Case::Words { lab.settings.futexes } else { 1 };
    Row {
        futexes: count,
        buckets: one.subject.buckets(),
        stride: (one.case == Case::Words).then_some(lab.settings.stride_bytes),
        operation: Some(name(one.operation)),
        case: Some(one.case.text()),
        ns_per_op: Some(Spread::of(&times)),
        ops_per_sec: Some(Spread::of(&rates).median),
        ratio_wasmtime: lab.series.ratio((&section, one.label(), one.threads), (&section, WASMTIME, one.threads)),
        repeat: samples.len(),
        ..row
    }
}
