//! `requeue`, as in perf: threads sleep on one word and are requeued to another without being woken.

use crate::sleepers::{Sleepers, wake_rest};
use crate::{Entrant, Head, Lab, Ratios, rows_of};
use anyhow::Result;
use lab_measure::machine::OwnLine;
use lab_measure::sample::Rounds;
use lab_measure::stats::Spread;
use lab_targets::requeue::{Move, Moved};
use lab_targets::{Name, Subject, Waited};
use serde::Serialize;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

const THREADS: [usize; 1] = [1000];
const BUDGET_S: f64 = 11.0;
/// Assumed time of a sample for each thread: to start, to sleep and to be woken.
const THREAD_GUESS: Duration = Duration::from_micros(25);
/// Samples take turns with this many pairs of words: whether two words share a bucket is chance, and must not last.
const PAIRS: usize = 64;

/// Each pair has the word that threads sleep on and the word that they are requeued to.
type Pairs = Arc<Vec<[OwnLine<AtomicU32>; 2]>>;

/// Settings of `requeue`.
#[derive(Clone, Debug, Default)]
pub struct Requeue {
    /// `-t`. `None` means the workload's defaults.
    pub threads: Option<Vec<usize>>,
    /// `-q` or `-B`. `None`: one row with one at a time, and one with all at once.
    pub at_once: Option<AtOnce>,
    /// `-p`: requeue to a lock with priority inheritance.
    pub pi: bool,
}

/// One row of the results.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Target, threads and setup.
    #[serde(flatten)]
    pub head: Head,
    /// Number of waiters that a call requeues.
    pub nrequeue: usize,
    /// Whether the waiters are requeued to a lock with priority inheritance.
    pub pi: bool,
    /// Time of each waiter requeued.
    pub ns_per_op: Spread,
    /// This row's time divided by each rival's.
    #[serde(flatten)]
    pub ratios: Ratios,
}

/// Number of waiters that a call requeues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtOnce {
    /// This number.
    Some(usize),
    /// All waiters.
    All,
}

/// Section of the results in `Lab::series`.
pub fn section(at_once: AtOnce) -> String {
    match at_once {
        AtOnce::Some(count) => format!("requeue {count}"),
        AtOnce::All => "requeue all".to_string(),
    }
}

struct Competitor {
    entrant: Entrant,
    at_once: AtOnce,
}

impl Competitor {
    fn nrequeue(&self) -> usize {
        match self.at_once {
            AtOnce::Some(count) => count.min(self.entrant.threads),
            AtOnce::All => self.entrant.threads,
        }
    }
}

/// Measures the targets that can requeue, one sample of each in a round.
pub fn run(lab: &mut Lab<'_>, asked: &Requeue, notes: &mut Vec<String>) -> Result<Vec<Row>> {
    let threads = lab.threads(&asked.threads, &THREADS, notes);
    let competitors = line_up(lab, asked, &threads, notes)?;
    if competitors.is_empty() {
        return Ok(Vec::new());
    }
    let sleepers = Sleepers::new(lab, threads.iter().copied().max().unwrap_or(1))?;
    let pairs: Pairs = Arc::new((0..PAIRS).map(|_| Default::default()).collect());
    let turn = Cell::new(0);
    let rounds = rounds(lab, BUDGET_S, competitors.iter().map(|one| one.entrant.threads));
    let stage = format!("requeue: {} rows, {} rounds", competitors.len(), rounds.count);
    let progress = lab.progress(&stage, rounds.count);
    let samples = lab.rounds(rounds, competitors.len(), &progress, |number| {
        turn.set((turn.get() + 1) % PAIRS);
        once(asked, &sleepers, &competitors[number], &pairs, turn.get())
    })?;
    drop(progress);
    for (one, samples) in competitors.iter().zip(&samples) {
        lab.series.put((&section(one.at_once), one.entrant.name.text(), one.entrant.threads), samples.clone());
    }
    Ok(rows_of(&competitors, &samples, |one, samples| row(lab, asked, one, samples)))
}

/// Rounds for samples in which these numbers of threads go to sleep and are woken.
pub fn rounds(lab: &Lab<'_>, budget_s: f64, threads: impl Iterator<Item = usize>) -> Rounds {
    let budget = lab.budget(budget_s);
    let round: Duration = threads.map(|threads| THREAD_GUESS * threads as u32 + Duration::from_millis(2)).sum();
    let fit = (budget.as_nanos() / round.as_nanos().max(1)) as usize;
    let rounds = lab.settings.repeat.unwrap_or_else(|| fit.saturating_sub(1).max(1));
    Rounds { count: rounds, warm_up: true, limit: lab.settings.repeat.is_none().then_some(budget) }
}

fn line_up(lab: &Lab<'_>, asked: &Requeue, threads: &[usize], notes: &mut Vec<String>) -> Result<Vec<Competitor>> {
    let ways = asked.at_once.map_or(vec![AtOnce::Some(1), AtOnce::All], |at_once| vec![at_once]);
    let mut names = lab.sleeping_targets();
    if asked.pi && names.contains(&Name::ParkingLot) {
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
                competitors.push(Competitor { entrant: lab.small_table(name, threads)?, at_once });
            }
        }
    }
    if names.contains(&Name::ParkingLot) && ways != [AtOnce::All] {
        notes.push("parking_lot only with all waiters in one call: unpark_requeue takes no count".to_string());
    }
    Ok(competitors)
}

/// One sample: nanoseconds for each waiter requeued.
fn once(asked: &Requeue, sleepers: &Sleepers, one: &Competitor, pairs: &Pairs, turn: usize) -> Result<f64> {
    let Entrant { threads, subject, .. } = &one.entrant;
    subject.make_ready();
    let [from, to] = &pairs[turn];
    let it = Move { from: &from.0, to: &to.0, waiters: *threads, at_once: one.nrequeue() };
    let wait = {
        let (subject, words, is_pi) = (subject.clone(), pairs.clone(), asked.pi);
        move || {
            let [from, to] = &words[turn];
            if is_pi { subject.wait_requeue_pi(&from.0, &to.0) } else { subject.wait(&from.0, 0) == Waited::Woken }
        }
    };
    let moved = sleepers.sample(*threads, wait, || match asked.pi {
        true => move_to_lock(&**subject, it),
        false => move_all(&**subject, it),
    })?;
    Ok(moved.elapsed.as_nanos() as f64 / moved.waiters as f64)
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

fn row(lab: &Lab<'_>, asked: &Requeue, one: &Competitor, samples: &[f64]) -> Row {
    let Entrant { name, threads, .. } = one.entrant;
    Row {
        head: one.entrant.head(lab, "requeue", 2, samples.len()),
        nrequeue: one.nrequeue(),
        pi: asked.pi,
        ns_per_op: Spread::of(samples),
        ratios: Ratios::of(&lab.series, &section(one.at_once), name.text(), threads),
    }
}
