//! `wake-parallel`, as in perf: threads sleep on one word, and several wakers each wake an equal share of them, in one
//! call each and at the same time.

use crate::requeue::rounds;
use crate::sleepers::{Sleepers, wake_rest};
use crate::wake_many::Word;
use crate::{Entrant, Head, Lab, Ratios, rows_of};
use anyhow::Result;
use lab_measure::pool::{Gate, Pool};
use lab_measure::stats::Spread;
use lab_targets::{Subject, Waited};
use serde::Serialize;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Number of threads that sleep.
pub const THREADS: [usize; 1] = [1000];
const NWAKERS: usize = 2;
const BUDGET_S: f64 = 5.0;
const SECTION: &str = "wake-parallel";

/// Settings of `wake-parallel`.
#[derive(Clone, Debug, Default)]
pub struct WakeParallel {
    /// `-t`. `None` means the workload's defaults.
    pub threads: Option<Vec<usize>>,
    /// `-w`. `None` means the workload's default.
    pub nwakers: Option<usize>,
}

/// One row of the results.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Target, threads and setup.
    #[serde(flatten)]
    pub head: Head,
    /// Number of wakers.
    pub nwakers: usize,
    /// Time of each waiter woken, as one waker sees it.
    pub ns_per_op: Spread,
    /// This row's time divided by each rival's.
    #[serde(flatten)]
    pub ratios: Ratios,
}

struct Competitor {
    entrant: Entrant,
    nwakers: usize,
}

impl Competitor {
    fn setup(&self) -> WakeSetup<'_> {
        WakeSetup { subject: &self.entrant.subject, threads: self.entrant.threads, nwakers: self.nwakers }
    }
}

/// A sample's target, sleepers and wakers.
#[derive(Clone, Copy)]
pub struct WakeSetup<'a> {
    /// Target, threads and setup.
    pub subject: &'a Arc<dyn Subject>,
    /// Number of threads that sleep.
    pub threads: usize,
    /// Number of wakers. Each wakes an equal share.
    pub nwakers: usize,
}

/// Measures all targets, one sample of each in a round.
pub fn run(lab: &mut Lab<'_>, asked: &WakeParallel, notes: &mut Vec<String>) -> Result<Vec<Row>> {
    let threads = lab.threads(&asked.threads, &THREADS, notes);
    let competitors = line_up(lab, asked, &threads)?;
    let sleepers = Sleepers::new(lab, threads.iter().copied().max().unwrap_or(1))?;
    let wakers = Pool::new(competitors.iter().map(|one| one.nwakers).max().unwrap_or(1), &lab.cpus)?;
    let rounds = rounds(lab, BUDGET_S, competitors.iter().map(|one| one.entrant.threads));
    let stage = format!("{SECTION}: {} rows, {} rounds", competitors.len(), rounds.count);
    let progress = lab.progress(&stage, rounds.count);
    let word = Word::default();
    let samples = lab.rounds(rounds, competitors.len(), &progress, |number| {
        let setup = competitors[number].setup();
        let shares = wake_up(&sleepers, &wakers, setup, &word)?;
        let time: Duration = shares.iter().map(|(_, elapsed)| *elapsed).sum();
        Ok(time.as_nanos() as f64 / setup.threads as f64)
    })?;
    drop(progress);
    for (one, samples) in competitors.iter().zip(&samples) {
        lab.series.put((SECTION, one.entrant.name.text(), one.entrant.threads), samples.clone());
    }
    Ok(rows_of(&competitors, &samples, |one, samples| row(lab, one, samples)))
}

fn line_up(lab: &Lab<'_>, asked: &WakeParallel, threads: &[usize]) -> Result<Vec<Competitor>> {
    let mut competitors = Vec::new();
    for threads in threads.iter().copied() {
        let nwakers = nwakers(lab, asked, threads);
        for name in lab.sleeping_targets() {
            competitors.push(Competitor { entrant: lab.small_table(name, threads)?, nwakers });
        }
    }
    Ok(competitors)
}

/// As in perf: at most one waker for each sleeper. The caller has checked that `-w` divides `threads`. By default there
/// are two wakers, or one if two do not divide them.
fn nwakers(lab: &Lab<'_>, asked: &WakeParallel, threads: usize) -> usize {
    let default = if threads.is_multiple_of(NWAKERS) { NWAKERS.min(lab.cpus.len()) } else { 1 };
    asked.nwakers.unwrap_or(default).min(threads)
}

/// Has all threads sleep, and each waker wake its share. Returns the number that each waker woke and the time of its
/// call.
pub fn wake_up(
    sleepers: &Sleepers,
    wakers: &Pool,
    setup: WakeSetup<'_>,
    word: &Word,
) -> Result<Vec<(usize, Duration)>> {
    setup.subject.make_ready();
    let wait = {
        let (subject, word) = (setup.subject.clone(), word.clone());
        move || subject.wait(&word.0, 0) == Waited::Woken
    };
    sleepers.sample(setup.threads, wait, || {
        let shares = wake(wakers, setup, word);
        let woken: usize = shares.iter().map(|(woken, _)| woken).sum();
        wake_rest(setup.threads - woken, || setup.subject.wake_many(&word.0, setup.threads));
        (woken == setup.threads).then_some(shares)
    })
}

fn wake(wakers: &Pool, setup: WakeSetup<'_>, word: &Word) -> Vec<(usize, Duration)> {
    let gate = Gate::new(setup.nwakers);
    let (subject, word, share) = (setup.subject.clone(), word.clone(), setup.threads / setup.nwakers);
    let job = move |_waker: usize| {
        gate.pass_together();
        let start = Instant::now();
        let woken = subject.wake_many(&word.0, share);
        (woken, start.elapsed())
    };
    // If a waker failed, the sample does not count, and the caller wakes the rest.
    wakers.run(setup.nwakers, job, || {}).unwrap_or_default()
}

fn row(lab: &Lab<'_>, one: &Competitor, samples: &[f64]) -> Row {
    Row {
        head: one.entrant.head(lab, SECTION, 1, samples.len()),
        nwakers: one.nwakers,
        ns_per_op: Spread::of(samples),
        ratios: Ratios::of(&lab.series, SECTION, one.entrant.name.text(), one.entrant.threads),
    }
}
