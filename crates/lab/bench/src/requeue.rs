//! `requeue`, perf's: threads sleep at one word, and are moved to another without being woken.

use super::sleepers::{Sleepers, let_go};
use super::{Lab, Outcome};
use crate::Row;
use anyhow::Result;
use lab_measure::machine::OwnLine;
use lab_measure::sample::{self, Course};
use lab_measure::stats::Spread;
use lab_targets::Policy;
use lab_targets::requeue::{Move, Moved};
use lab_targets::{Name, Subject, Waited};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

const THREADS: [usize; 1] = [1000];
const BUDGET_S: f64 = 11.0;
/// What a sample takes for each thread: to start, to sleep, to be woken.
const THREAD_GUESS: Duration = Duration::from_micros(25);
/// Samples take turns with so many pairs of words: whether two words share a bucket is luck, and luck must not last.
const PAIRS: usize = 64;

/// The words that threads sleep at, and those that they are moved to.
type Pairs = Arc<Vec<[OwnLine<AtomicU32>; 2]>>;

/// How many waiters a call moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtOnce {
    /// This many.
    Some(usize),
    /// All of them.
    All,
}

/// The section in the series.
pub fn section(at_once: AtOnce) -> String {
    match at_once {
        AtOnce::Some(count) => format!("requeue {count}"),
        AtOnce::All => "requeue all".to_string(),
    }
}

struct Competitor {
    name: Name,
    threads: usize,
    at_once: AtOnce,
    policy: Policy,
    subject: Arc<dyn Subject>,
}

/// Measures every target that can, interleaved.
pub fn run(lab: &mut Lab<'_>) -> Result<Outcome> {
    let mut notes = Vec::new();
    let threads = lab.threads(&THREADS, &mut notes);
    let competitors = line_up(lab, &threads, &mut notes)?;
    if competitors.is_empty() {
        return Ok(Outcome { rows: Vec::new(), notes });
    }
    let sleepers = Sleepers::new(lab, threads.iter().copied().max().unwrap_or(1))?;
    let pairs: Pairs = Arc::new((0..PAIRS).map(|_| Default::default()).collect());
    let turn = Cell::new(0);
    let course = course(lab, BUDGET_S, competitors.iter().map(|one| one.threads));
    let stage = format!("requeue: {} rows, {} rounds", competitors.len(), course.rounds);
    let progress = lab.progress(&stage, course.rounds);
    let samples = sample::rounds(course, competitors.len(), &progress, |number| {
        turn.set((turn.get() + 1) % PAIRS);
        once(lab, &sleepers, &competitors[number], &pairs, turn.get())
    })?;
    drop(progress);
    for (one, samples) in competitors.iter().zip(&samples) {
        lab.series.put((&section(one.at_once), one.name.text(), one.threads), samples.clone());
    }
    let rows = competitors.iter().zip(&samples).map(|(one, samples)| row(lab, one, samples)).collect();
    Ok(Outcome { rows, notes })
}

/// Rounds for samples in which so many threads go to sleep and are woken.
pub fn course(lab: &Lab<'_>, budget_s: f64, threads: impl Iterator<Item = usize>) -> Course {
    let budget = lab.budget(budget_s);
    let round: Duration = threads.map(|threads| THREAD_GUESS * threads as u32 + Duration::from_millis(2)).sum();
    let fit = (budget.as_nanos() / round.as_nanos().max(1)) as usize;
    let rounds = lab.settings.repeat.unwrap_or_else(|| fit.saturating_sub(1).max(1));
    Course { rounds, warm_up: true, limit: lab.settings.repeat.is_none().then_some(budget) }
}

fn line_up(lab: &Lab<'_>, threads: &[usize], notes: &mut Vec<String>) -> Result<Vec<Competitor>> {
    let settings = lab.settings;
    let ways = match (settings.nrequeue, settings.broadcast) {
        (Some(count), _) => vec![AtOnce::Some(count)],
        (None, true) => vec![AtOnce::All],
        (None, false) => vec![AtOnce::Some(1), AtOnce::All],
    };
    let mut names = lab.sleeping_targets();
    if settings.pi && names.contains(&Name::ParkingLot) {
        notes.push("parking_lot left out: its waiters cannot wait for a lock that lends priorities".to_string());
        names.retain(|name| name.has_pi());
    }
    let mut competitors = Vec::new();
    for threads in threads.iter().copied() {
        for at_once in ways.iter().copied() {
            for name in names.iter().copied() {
                if name == Name::ParkingLot && at_once != AtOnce::All {
                    continue;
                }
                let (policy, subject) = lab.small_table(name, threads)?;
                competitors.push(Competitor { name, threads, at_once, policy, subject });
            }
        }
    }
    if names.contains(&Name::ParkingLot) && ways != [AtOnce::All] {
        notes.push("parking_lot only with all at once: unpark_requeue takes no count".to_string());
    }
    Ok(competitors)
}

/// One sample: nanoseconds for each waiter moved.
fn once(lab: &Lab<'_>, sleepers: &Sleepers, one: &Competitor, pairs: &Pairs, turn: usize) -> Result<f64> {
    one.subject.make_ready();
    let at_once = match one.at_once {
        AtOnce::Some(count) => count.min(one.threads),
        AtOnce::All => one.threads,
    };
    let [from, to] = &pairs[turn];
    let it = Move { from: &from.0, to: &to.0, waiters: one.threads, at_once };
    let (subject, words, is_pi) = (one.subject.clone(), pairs.clone(), lab.settings.pi);
    let wait = move || {
        let [from, to] = &words[turn];
        if is_pi { subject.wait_requeue_pi(&from.0, &to.0) } else { subject.wait(&from.0, 0) == Waited::Woken }
    };
    let subject = &*one.subject;
    let moved =
        sleepers.sample(one.threads, wait, || if is_pi { move_to_lock(subject, it) } else { move_all(subject, it) })?;
    Ok(moved.elapsed.as_nanos() as f64 / moved.waiters as f64)
}

fn move_all(subject: &dyn Subject, it: Move<'_>) -> Option<Moved> {
    let moved = subject.requeue(it);
    let_go(it.waiters, || subject.wake_many(it.to, it.waiters) + subject.wake_many(it.from, it.waiters));
    moved.is_exact.then_some(moved)
}

/// This thread owns the lock while it moves them, as whoever signals a condition does. So the calls wake nobody; perf's
/// own run leaves the lock free, and each call has a waiter run that hands it on. Unlocked, the lock goes through all
/// of them.
fn move_to_lock(subject: &dyn Subject, it: Move<'_>) -> Option<Moved> {
    let moved = subject.requeue_pi(it).unwrap_or_default();
    let_go(it.waiters - moved.waiters, || {
        subject.requeue_pi(Move { at_once: it.waiters, ..it }).unwrap_or_default().waiters
    });
    moved.is_exact.then_some(moved)
}

fn row(lab: &Lab<'_>, one: &Competitor, samples: &[f64]) -> Row {
    let section = section(one.at_once);
    let key = |name: Name| (section.as_str(), name.text(), one.threads);
    one.subject.make_ready();
    Row {
        futexes: 2,
        buckets: one.subject.buckets(),
        policy: one.name.is_ours().then(|| super::hammer::policy_name(one.name, one.policy)),
        nrequeue: Some(match one.at_once {
            AtOnce::Some(count) => count.min(one.threads),
            AtOnce::All => one.threads,
        }),
        pi: Some(lab.settings.pi),
        ns_per_op: Some(Spread::of(samples)),
        ratio_kernel: lab.series.ratio(key(one.name), key(Name::Kernel)),
        ratio_parking_lot: lab.series.ratio(key(one.name), key(Name::ParkingLot)),
        repeat: samples.len(),
        ..Row::new(lab, "requeue", one.name, one.threads)
    }
}
