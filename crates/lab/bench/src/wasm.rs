//! `wasm`: waits on a word that differs, and notifies of a word without waiters, in a linear memory; also on wasmtime.
//!
//! Both sides check the alignment and bounds of each address. In the case `words` each thread uses words of its own, as
//! in perf's `futex hash`. In the case `one` all threads use one word.

use crate::all::All;
use crate::flags::{self, Own, Shared, help_of_futexes};
use crate::hammer::{self, times_and_rate};
use crate::rows::{self, shown};
use crate::settings::{Buckets, Settings};
use crate::summary::Line;
use crate::workers::{self, Disturbances, Sample};
use crate::workload::{Workload, plain};
use crate::{BUCKETS_MIN, Head, Lab, stage};
use anyhow::Result;
use clap::Args;
use lab_measure::pool::{Gate, Pool};
use lab_measure::stats::Spread;
use lab_targets::Policy;
use lab_targets::loops::Tally;
use lab_targets::wasm::{self, Addresses, Subject};
use lab_targets::{Name, Operation, Shape};
use lab_terminal::table::ratio;
use lab_values::{self as values, List};
use serde::Serialize;
use std::sync::Arc;
use std::time::{Duration, Instant};
use strum::{Display, IntoStaticStr};

const THREADS: [usize; 2] = [1, 2];
/// Half of it if wasmtime is not built in.
const BUDGET_S: f64 = if cfg!(feature = "wasmtime") { 6.0 } else { 3.0 };
/// Each thread's words begin on a page of their own, so this is at least a page.
const APART: u64 = 4096;
/// Minimum time of hammering before the first sample, so that the table finds its size.
const SETTLE: Duration = Duration::from_millis(300);

/// Target name of the rival.
pub const WASMTIME: &str = "wasmtime";

/// WebAssembly's wait and notify; compared with wasmtime if built with it
#[derive(Clone, Args)]
pub struct Wasm {
    /// Threads, a comma list [default: 1,2]
    #[arg(short, long, value_name = "LIST", value_parser = values::threads())]
    threads: Option<List<usize>>,
    #[command(flatten)]
    words: flags::Words,
    #[command(flatten)]
    shared: Shared,
    #[command(flatten)]
    own: Own,
}

/// One row of the results. The help has a line on each field.
#[derive(Clone, Serialize)]
pub struct Row {
    #[serde(flatten)]
    head: Head,
    operation: &'static str,
    case: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    early_return: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stride: Option<usize>,
    ns_per_op: Spread,
    ops_per_sec: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio_wasmtime: Option<f64>,
}

shown!(
    Row,
    |row| row.ns_per_op.median,
    ["wasmtime": row.ratio_wasmtime],
    (row.early_return == Some(true)).then_some("early return")
);

/// The addresses that the threads use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Case {
    /// Each thread has many words of its own.
    Words,
    /// All threads use one word.
    One,
}

/// Section of the results in `Lab::series`.
pub fn section(operation: Operation, case: Case) -> String {
    format!("wasm {} {case}", name(operation))
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

impl Workload for Wasm {
    const NAME: &'static str = "wasm";
    type Row = Row;

    fn help() -> String {
        help_of_futexes(
            "\
  operation      wait: on a word that differs; notify: of a word without waiters
  case           words: each thread has its own words; one: all threads use one word
  early_return   of the engine's waits: whether they may compare the word before they lock the bucket
  stride         distance between two words in bytes
  ns_per_op      {p10, median, p90} as one thread sees it; ops_per_sec of all threads
  ratio_wasmtime this row's ns_per_op divided by wasmtime's: the median over the rounds (if built with it)",
            "  cargo run --release -p lab --features wasmtime -- bench wasm",
        )
    }

    fn check(&mut self) -> Result<Settings, String> {
        self.words.check(self.threads.as_ref())?;
        Ok(Settings { shared: self.shared.shared, ..self.own.settings()? })
    }

    fn in_all(all: &All) -> Vec<Self> {
        vec![Wasm { threads: all.threads.clone(), words: all.words(), ..plain() }]
    }

    /// Measures both instructions, one sample of each row in a round.
    fn run(&self, lab: &mut Lab<'_>, notes: &mut Vec<String>) -> Result<Vec<Row>> {
        let threads = lab.threads(&self.threads, &THREADS, notes);
        let pool = Pool::new(threads.iter().copied().max().unwrap_or(1), &lab.cpus)?;
        let own_cpus = lab.own_cpus();
        let runner = Runner { own_cpus, words: &self.words, pool, disturbances: Disturbances::default() };
        let competitors = line_up(lab, &runner, &threads, notes)?;
        if competitors.is_empty() {
            return Ok(Vec::new());
        }
        let pace = lab.pace(BUDGET_S, competitors.len());
        let rows = lab.measure(
            &stage(Self::NAME, &competitors),
            pace.rounds,
            &competitors,
            |_, one| runner.sample(one, pace.sample),
            (
                |one| (section(one.operation, one.case).into(), one.label().into(), one.threads),
                |sample: &Sample| sample.ns_per_op,
            ),
            |lab, one, samples| row(lab, &self.words, one, samples),
        )?;
        notes.extend(runner.disturbances.remark());
        Ok(rows)
    }

    fn text(&self, rows: &[Row]) -> String {
        rows::table(rows, 2, |row| {
            let words = if row.case == "one" { "one".to_string() } else { format!("{} each", row.head.futexes) };
            let mut cells = vec![rows::target(row), ("operation", row.operation.to_string()), ("words", words)];
            cells.extend([rows::threads(&row.head), rows::buckets(&row.head)]);
            cells.extend(rows::spread("ns/op", &row.ns_per_op, 1));
            cells.extend([rows::mops(row.ops_per_sec, 1), ("/ wasmtime", ratio(row.ratio_wasmtime))]);
            cells
        })
    }

    fn line(&self, rows: &[Row]) -> Option<Line> {
        Line::first("memory.atomic.wait32, ns", rows, |row| (row.head.threads, row.case, row.operation))
    }
}

struct Runner<'a> {
    own_cpus: usize,
    words: &'a flags::Words,
    pool: Pool,
    disturbances: Disturbances,
}

fn line_up(lab: &Lab<'_>, runner: &Runner<'_>, threads: &[usize], notes: &mut Vec<String>) -> Result<Vec<Competitor>> {
    use Operation::{WaitDiffers, WakeNoWaiter};
    let settings = lab.settings;
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
        let (count, stride) = (self.words.number.futexes as u64, self.words.stride as u64);
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
        // Where threads sleep for a lock of the runtime they have no CPU either, and that counts.
        let sleeps = one.policy.is_none() && one.threads > 1;
        self.disturbances.sample(!sleeps && one.threads <= self.own_cpus, || {
            self.hammer(&one.subject, one.case, one.threads, one.operation, length)
        })
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
        let subject = subject.clone();
        let addresses: Vec<_> = (0..threads).map(|worker| self.addresses(case, worker)).collect();
        let job = move |worker: usize, gate: &Gate| subject.hammer(operation, addresses[worker], gate);
        workers::hammer(&self.pool, threads, length, format_args!("wasm {}", name(operation)), job)
    }
}

fn row(lab: &Lab<'_>, words: &flags::Words, one: &Competitor, samples: &[Sample]) -> Row {
    let (times, rate) = times_and_rate(samples);
    let section = section(one.operation, one.case);
    let is_wait = one.operation == Operation::WaitDiffers;
    let head = match one.policy {
        Some(policy) => {
            Head { policy: Some(policy.to_string()), ..Head::new(lab, Wasm::NAME, Name::Live, one.threads) }
        }
        None => Head::of_rival(lab, Wasm::NAME, WASMTIME, one.threads),
    };
    let has_words = one.case == Case::Words;
    Row {
        head: Head {
            futexes: if has_words { words.number.futexes } else { 1 },
            buckets: one.subject.buckets(),
            repeat: samples.len(),
            ..head
        },
        operation: name(one.operation),
        case: one.case.into(),
        early_return: (one.policy.is_some() && is_wait).then_some(one.early_return),
        stride: has_words.then_some(words.stride),
        ns_per_op: times,
        ops_per_sec: rate,
        ratio_wasmtime: lab.series.ratio((&section, one.label(), one.threads), (&section, WASMTIME, one.threads)),
    }
}
