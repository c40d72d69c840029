//! `wasm`: waits on a word that differs, and notifies of a word without waiters, in a linear memory; also on wasmtime.
//!
//! Both sides check the alignment and bounds of each address. In the case `words` each thread uses words of its own, as
//! in perf's `futex hash`. In the case `one` all threads use one word.

use crate::hammer::{self, Hammer, times_and_rate};
use crate::settings::Buckets;
use crate::workers::{self, Sample};
use crate::{BUCKETS_MIN, Head, Lab, rows_of};
use anyhow::{Result, ensure};
use lab_measure::pool::{Gate, Pool};
use lab_measure::stats::Spread;
use lab_targets::Policy;
use lab_targets::loops::Tally;
use lab_targets::wasm::{self, Addresses, Subject};
use lab_targets::{Name, Operation, Shape};
use serde::Serialize;
use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

const THREADS: [usize; 2] = [1, 2];
/// Half of it if wasmtime is not built in.
const BUDGET_S: f64 = if cfg!(feature = "wasmtime") { 6.0 } else { 3.0 };
/// Each thread's words begin on a page of their own, so this is at least a page.
const APART: u64 = 4096;
/// Minimum time of hammering before the first sample, so that the table finds its size.
const SETTLE: Duration = Duration::from_millis(300);

/// Target name of the rival.
pub const WASMTIME: &str = "wasmtime";

/// Settings of `wasm`: threads and their words.
pub type Wasm = Hammer;

/// One row of the results.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Target, threads and setup.
    #[serde(flatten)]
    pub head: Head,
    /// `wait` or `notify`.
    pub operation: &'static str,
    /// `words` or `one`.
    pub case: &'static str,
    /// The engine's waits only: whether they may compare the word before they lock the bucket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub early_return: Option<bool>,
    /// Distance between two words, in bytes. `None` if there is one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stride: Option<usize>,
    /// Time of one operation, as a thread sees it.
    pub ns_per_op: Spread,
    /// Rate of all threads together; median over the rounds.
    pub ops_per_sec: f64,
    /// This row's time divided by wasmtime's, round by round.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_wasmtime: Option<f64>,
}

/// The addresses that the threads use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// Each thread has many words of its own.
    Words,
    /// All threads use one word.
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

/// Section of the results in `Lab::series`.
pub fn section(operation: Operation, case: Case) -> String {
    format!("wasm {} {}", name(operation), case.text())
}

fn name(operation: Operation) -> &'static str {
    match operation {
        Operation::WaitDiffers => "wait",
        Operation::WakeNoWaiter => "notify",
    }
}

/// A target with its case, operation and threads.
struct Competitor {
    /// `None` for wasmtime.
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
            (Some(_), true) => hammer::EARLY_RETURN,
        }
    }
}

struct Runner<'a> {
    lab: &'a Lab<'a>,
    asked: &'a Wasm,
    pool: Pool,
    disturbed: Cell<usize>,
    samples: Cell<usize>,
}

/// Measures both instructions, one sample of each row in a round.
pub fn run(lab: &mut Lab<'_>, asked: &Wasm, notes: &mut Vec<String>) -> Result<Vec<Row>> {
    let threads = lab.threads(&asked.threads, &THREADS, notes);
    let pool = Pool::new(threads.iter().copied().max().unwrap_or(1), &lab.cpus)?;
    let runner = Runner { lab, asked, pool, disturbed: Cell::new(0), samples: Cell::new(0) };
    let competitors = line_up(&runner, &threads, notes)?;
    if competitors.is_empty() {
        return Ok(Vec::new());
    }
    let pace = lab.pace(BUDGET_S, competitors.len());
    let stage = format!("wasm: {} rows, {} rounds", competitors.len(), pace.rounds.count);
    let progress = lab.progress(&stage, pace.rounds.count);
    let samples = lab
        .rounds(pace.rounds, competitors.len(), &progress, |number| runner.sample(&competitors[number], pace.sample))?;
    drop(progress);
    notes.extend(workers::remark(runner.disturbed.get(), runner.samples.get()));
    for (one, samples) in competitors.iter().zip(&samples) {
        let times = samples.iter().map(|sample| sample.ns_per_op).collect();
        lab.series.put((&section(one.operation, one.case), one.label(), one.threads), times);
    }
    Ok(rows_of(&competitors, &samples, |one, samples| row(lab, asked, one, samples)))
}

fn line_up(runner: &Runner<'_>, threads: &[usize], notes: &mut Vec<String>) -> Result<Vec<Competitor>> {
    use Operation::{WaitDiffers, WakeNoWaiter};
    let settings = runner.lab.settings;
    let has_live = settings.targets.contains(&Name::Live);
    if !has_live {
        notes.push(
            "live left out: it is not among the targets, and no other scheme of the engine is measured here"
                .to_string(),
        );
    }
    if !cfg!(feature = "wasmtime") {
        let command = "cargo run --release -p lab --features wasmtime -- bench wasm";
        notes.push(format!("wasmtime left out: this build does not have it; use {command}"));
    }
    let policy = match settings.buckets {
        Buckets::Exactly(buckets) => Policy::Fixed(buckets.max(BUCKETS_MIN)),
        Buckets::Auto => settings.live_policy(),
    };
    let mut competitors = Vec::new();
    for (case, threads) in [Case::Words, Case::One].into_iter().flat_map(|case| threads.iter().map(move |t| (case, *t)))
    {
        let bytes = runner.addresses(case, threads - 1).end();
        let mut enter = |policy, early_return, operations: &[Operation], subject: Arc<dyn Subject>| {
            for operation in operations.iter().copied() {
                let subject = subject.clone();
                competitors.push(Competitor { policy, early_return, threads, case, operation, subject });
            }
        };
        if has_live {
            for (early_return, operations) in [(false, &[WaitDiffers, WakeNoWaiter][..]), (true, &[WaitDiffers])] {
                let shape = Shape { shared: settings.shared, early_return, ..Shape::new(settings.layout, policy) };
                let subject = wasm::ours(&shape, bytes)?;
                runner.settle(&subject, case, threads)?;
                enter(Some(policy), early_return, operations, subject);
            }
        }
        if let Some(subject) = wasm::wasmtime(bytes)? {
            enter(None, false, &[WaitDiffers, WakeNoWaiter], subject);
        }
    }
    Ok(competitors)
}

impl Runner<'_> {
    /// The addresses of one worker.
    fn addresses(&self, case: Case, worker: usize) -> Addresses {
        let (count, stride) = (self.asked.futexes as u64, self.asked.stride_bytes as u64);
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
        for _ in 0..workers::TRIES {
            tallies = self.hammer(&one.subject, one.case, one.threads, one.operation, length)?;
            disturbed = !sleeps && one.threads <= self.lab.own_cpus() && workers::is_disturbed(&tallies);
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
        ensure!(failed == 0, "{failed} operations of wasm {} had a wrong result", name(operation));
        Ok(tallies)
    }
}

fn row(lab: &Lab<'_>, asked: &Wasm, one: &Competitor, samples: &[Sample]) -> Row {
    let (times, rate) = times_and_rate(samples);
    let section = section(one.operation, one.case);
    let is_wait = one.operation == Operation::WaitDiffers;
    let head = match one.policy {
        Some(policy) => Head { policy: Some(policy.to_string()), ..Head::new(lab, "wasm", Name::Live, one.threads) },
        None => Head::of_rival(lab, "wasm", WASMTIME, one.threads),
    };
    let has_words = one.case == Case::Words;
    Row {
        head: Head {
            futexes: if has_words { asked.futexes } else { 1 },
            buckets: one.subject.buckets(),
            repeat: samples.len(),
            ..head
        },
        operation: name(one.operation),
        case: one.case.text(),
        early_return: (one.policy.is_some() && is_wait).then_some(one.early_return),
        stride: has_words.then_some(asked.stride_bytes),
        ns_per_op: times,
        ops_per_sec: rate,
        ratio_wasmtime: lab.series.ratio((&section, one.label(), one.threads), (&section, WASMTIME, one.threads)),
    }
}
