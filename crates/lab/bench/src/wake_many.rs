//! `wake -w`, perf's `futex wake`: threads sleep on one word, and one thread wakes them, `-w` in each call.

use crate::requeue::rounds;
use crate::sleepers::{Sleepers, wake_rest};
use crate::{Entrant, Head, Lab, Ratios, rows_of};
use anyhow::Result;
use lab_measure::machine::OwnLine;
use lab_measure::stats::Spread;
use lab_targets::{Subject, Waited};
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

const THREADS: [usize; 1] = [1000];
const BUDGET_S: f64 = 5.0;
const SECTION: &str = "wake many";

/// The word on which all threads sleep.
pub type Word = Arc<OwnLine<AtomicU32>>;

/// Settings of `wake -w`.
#[derive(Clone, Debug)]
pub struct WakeMany {
    /// `-t`. `None` means the workload's defaults.
    pub threads: Option<Vec<usize>>,
    /// Number of waiters that a call wakes.
    pub nwakes: usize,
}

/// One row of the results.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Target, threads and setup.
    #[serde(flatten)]
    pub head: Head,
    /// Number of waiters that a call wakes.
    pub nwakes: usize,
    /// Time of each waiter woken.
    pub ns_per_op: Spread,
    /// This row's time divided by each rival's.
    #[serde(flatten)]
    pub ratios: Ratios,
}

/// Measures all targets, one sample of each in a round.
pub fn run(lab: &mut Lab<'_>, asked: &WakeMany, notes: &mut Vec<String>) -> Result<Vec<Row>> {
    let threads = lab.threads(&asked.threads, &THREADS, notes);
    let nwakes = asked.nwakes;
    let mut competitors = Vec::new();
    for threads in threads.iter().copied() {
        for name in lab.sleeping_targets() {
            competitors.push(lab.small_table(name, threads)?);
        }
    }
    let sleepers = Sleepers::new(lab, threads.iter().copied().max().unwrap_or(1))?;
    let rounds = rounds(lab, BUDGET_S, competitors.iter().map(|one| one.threads));
    let stage = format!("wake, {nwakes} at once: {} rows, {} rounds", competitors.len(), rounds.count);
    let progress = lab.progress(&stage, rounds.count);
    let word = Word::default();
    let samples = lab.rounds(rounds, competitors.len(), &progress, |number| {
        let one = &competitors[number];
        let elapsed = wake_all(&sleepers, &one.subject, &word, one.threads, nwakes)?;
        Ok(elapsed.as_nanos() as f64 / one.threads as f64)
    })?;
    drop(progress);
    for (one, samples) in competitors.iter().zip(&samples) {
        lab.series.put((SECTION, one.name.text(), one.threads), samples.clone());
    }
    Ok(rows_of(&competitors, &samples, |one, samples| row(lab, one, nwakes, samples)))
}

/// Has `threads` threads sleep on the word and wakes them all. Returns the time of all calls.
pub fn wake_all(
    sleepers: &Sleepers,
    subject: &Arc<dyn Subject>,
    word: &Word,
    threads: usize,
    nwakes: usize,
) -> Result<Duration> {
    subject.make_ready();
    let wait = {
        let (subject, word) = (subject.clone(), word.clone());
        move || subject.wait(&word.0, 0) == Waited::Woken
    };
    sleepers.sample(threads, wait, || {
        let (mut woken, mut calls) = (0, 0);
        let start = Instant::now();
        while woken < threads {
            let some = subject.wake_many(&word.0, nwakes);
            woken += some;
            calls += 1;
            if some == 0 {
                break;
            }
        }
        let elapsed = start.elapsed();
        wake_rest(threads - woken, || subject.wake_many(&word.0, threads));
        // Otherwise some threads were not asleep yet.
        (woken == threads && calls == threads.div_ceil(nwakes)).then_some(elapsed)
    })
}

fn row(lab: &Lab<'_>, one: &Entrant, nwakes: usize, samples: &[f64]) -> Row {
    Row {
        head: one.head(lab, "wake", 1, samples.len()),
        nwakes,
        ns_per_op: Spread::of(samples),
        ratios: Ratios::of(&lab.series, SECTION, one.name.text(), one.threads),
    }
}
