//! `requeue`, as in perf: threads sleep on one word and are requeued to another without being woken.

use crate::all::All;
use crate::flags::{Perfs, Sleeping, help_of_futexes};
use crate::rows::{self, shown};
use crate::settings::Settings;
use crate::sleepers::{self, Sleepers, wake_rest};
use crate::summary::Line;
use crate::workload::{Workload, plain};
use crate::{Entrant, Head, Lab, Ratios, stage};
use anyhow::Result;
use clap::Args;
use lab_measure::machine::OwnLine;
use lab_measure::stats::Spread;
use lab_targets::requeue::{Move, Moved};
use lab_targets::{Name, Subject, Waited};
use lab_values::{self as values, List, THREADS_MAX};
use serde::Serialize;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

const BUDGET_S: f64 = 11.0;
/// Samples take turns with this many pairs of words: whether two words share a bucket is chance, and must not last.
const PAIRS: usize = 64;

/// The word that threads sleep on and the word that they are requeued to.
type Pair = [OwnLine<AtomicU32>; 2];

/// Sleeping threads are requeued to another word: perf's `futex requeue`
#[derive(Clone, Args)]
pub struct Requeue {
    /// Threads that sleep, a comma list [default: 1000]
    #[arg(short, long, value_name = "LIST", value_parser = values::threads())]
    threads: Option<List<usize>>,
    /// Waiters that one call requeues [default: 1, and all]
    #[arg(short = 'q', long, value_name = "N", value_parser = values::number::<usize>(1, THREADS_MAX, "waiters a call"),
        conflicts_with = "broadcast")]
    nrequeue: Option<usize>,
    /// Requeue all waiters in one call
    #[arg(short = 'B', long)]
    broadcast: bool,
    /// Requeue to a lock with priority inheritance
    #[arg(short, long)]
    pi: bool,
    #[command(flatten)]
    sleeping: Sleeping,
    #[command(flatten)]
    perfs: Perfs,
}

/// One row of the results. The help has a line on each field.
#[derive(Serialize)]
pub struct Row {
    #[serde(flatten)]
    head: Head,
    nrequeue: usize,
    pi: bool,
    ns_per_op: Spread,
    #[serde(flatten)]
    ratios: Ratios,
}

shown!(Row, |row| row.ns_per_op.median, row.ratios.over());

/// Number of waiters that a call requeues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtOnce {
    /// This number.
    Some(usize),
    /// All waiters.
    All,
}

impl AtOnce {
    /// How many of `threads` waiters a call requeues.
    fn of(self, threads: usize) -> usize {
        match self {
            AtOnce::Some(count) => count.min(threads),
            AtOnce::All => threads,
        }
    }
}

/// Section of the results in `Lab::series`.
pub fn section(at_once: AtOnce) -> String {
    match at_once {
        AtOnce::Some(count) => format!("requeue {count}"),
        AtOnce::All => "requeue all".to_string(),
    }
}

impl Workload for Requeue {
    const NAME: &'static str = "requeue";
    type Row = Row;

    fn help() -> String {
        help_of_futexes(
            "\
  nrequeue       waiters that a call requeues
  pi             whether they are requeued to a lock with priority inheritance
  ns_per_op      {p10, median, p90} of each waiter requeued; only the calls are timed
  ratio_kernel, ratio_parking_lot   this row's ns_per_op divided by theirs: the median over the rounds",
            "  ufutex bench requeue -t 1000 -q 1 -p",
        )
    }

    fn check(&mut self) -> Result<Settings, String> {
        self.perfs.settings(self.sleeping.targets.as_ref())
    }

    fn in_all(all: &All) -> Vec<Self> {
        vec![Requeue { threads: all.threads.clone(), ..plain() }]
    }

    /// Measures the targets that can requeue, one sample of each in a round.
    fn run(&self, lab: &mut Lab<'_>, notes: &mut Vec<String>) -> Result<Vec<Row>> {
        let threads = lab.threads(&self.threads, &sleepers::THREADS, notes);
        let competitors = self.line_up(lab, &threads, notes)?;
        if competitors.is_empty() {
            return Ok(Vec::new());
        }
        let sleepers = Sleepers::new(lab, threads.iter().copied().max().unwrap_or(1))?;
        let pairs: Arc<Vec<Pair>> = Arc::new((0..PAIRS).map(|_| Default::default()).collect());
        let turn = Cell::new(0);
        lab.measure(
            &stage(Self::NAME, &competitors),
            sleepers::rounds(lab, BUDGET_S, competitors.iter().map(|(one, _)| one.threads)),
            &competitors,
            |_, (Entrant { threads, subject, .. }, at_once)| {
                turn.set((turn.get() + 1) % PAIRS);
                let [from, to] = &pairs[turn.get()];
                let it = Move { from: &from.0, to: &to.0, waiters: *threads, at_once: at_once.of(*threads) };
                let moved = sleepers.sample(*threads, self.waiter(subject, &pairs, turn.get()), || {
                    if self.pi { move_to_lock(&**subject, it) } else { move_all(&**subject, it) }
                })?;
                Ok(moved.elapsed.as_nanos() as f64 / moved.waiters as f64)
            },
            (|(one, at_once)| (section(*at_once).into(), one.name.text().into(), one.threads), |sample| *sample),
            |lab, (one, at_once), samples| Row {
                head: one.head(lab, Self::NAME, 2, samples.len()),
                nrequeue: at_once.of(one.threads),
                pi: self.pi,
                ns_per_op: Spread::of(samples),
                ratios: Ratios::of(&lab.series, &section(*at_once), one.name.text(), one.threads),
            },
        )
    }

    fn text(&self, rows: &[Row]) -> String {
        let target = |row: &Row| match row.pi {
            true => ("target", format!("{} (pi)", row.head.target)),
            false => rows::target(row),
        };
        sleepers::text(rows, "at once", ("ns/waiter", 1), |row| (target(row), row.nrequeue, row.ns_per_op, row.ratios))
    }

    fn line(&self, rows: &[Row]) -> Option<Line> {
        Line::first("a waiter requeued, ns", rows, |row| (row.head.threads, row.nrequeue))
    }
}

impl Requeue {
    /// `-B` or `-q`. `None`: one row with one at a time, and one with all at once.
    fn at_once(&self) -> Option<AtOnce> {
        if self.broadcast { Some(AtOnce::All) } else { self.nrequeue.map(AtOnce::Some) }
    }

    fn line_up(&self, lab: &Lab<'_>, threads: &[usize], notes: &mut Vec<String>) -> Result<Vec<(Entrant, AtOnce)>> {
        let ways = self.at_once().map_or(vec![AtOnce::Some(1), AtOnce::All], |at_once| vec![at_once]);
        let mut names = lab.sleeping_targets();
        if self.pi && names.contains(&Name::ParkingLot) {
            notes.push("parking_lot left out: it has no locks with priority inheritance".to_string());
            names.retain(|name| name.has_pi());
        }
        let mut competitors = Vec::new();
        for threads in threads.iter().copied() {
            for at_once in ways.iter().copied() {
                for name in names.iter().copied() {
                    if name == Name::ParkingLot && at_once != AtOnce::All {
                        continue;
                    }
                    competitors.push((lab.small_table(name, threads)?, at_once));
                }
            }
        }
        if names.contains(&Name::ParkingLot) && ways != [AtOnce::All] {
            notes.push("parking_lot only with all waiters in one call: unpark_requeue takes no count".to_string());
        }
        Ok(competitors)
    }

    /// The wait of each thread. It returns whether it was woken, or has the lock.
    fn waiter(
        &self,
        subject: &Arc<dyn Subject>,
        pairs: &Arc<Vec<Pair>>,
        turn: usize,
    ) -> impl Fn() -> bool + Clone + Send + Sync + 'static {
        subject.make_ready();
        let (subject, pairs, is_pi) = (subject.clone(), pairs.clone(), self.pi);
        move || {
            let [from, to] = &pairs[turn];
            if is_pi { subject.wait_requeue_pi(&from.0, &to.0) } else { subject.wait(&from.0, 0) == Waited::Woken }
        }
    }
}

fn move_all(subject: &dyn Subject, it: Move<'_>) -> Option<Moved> {
    let moved = subject.requeue(it);
    wake_rest(it.waiters, || subject.wake_many(it.to, it.waiters) + subject.wake_many(it.from, it.waiters));
    moved.is_exact.then_some(moved)
}

/// This thread owns the lock during the requeue, as the signaller of a condition variable does, so the calls wake no
/// thread. (perf leaves the lock free: each call wakes a waiter, which unlocks.) After its unlock the waiters pass the
/// lock on, one to the next.
fn move_to_lock(subject: &dyn Subject, it: Move<'_>) -> Option<Moved> {
    let moved = subject.requeue_pi(it).unwrap_or_default();
    wake_rest(it.waiters - moved.waiters, || {
        subject.requeue_pi(Move { at_once: it.waiters, ..it }).unwrap_or_default().waiters
    });
    moved.is_exact.then_some(moved)
}
