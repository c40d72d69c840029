//! `wake -w`, perf's `futex wake`: threads sleep at one word, and one thread wakes them, `-w` in each call.

use super::requeue::course;
use super::sleepers::{Sleepers, let_go};
use super::{Lab, Outcome};
use crate::Row;
use anyhow::Result;
use lab_measure::machine::OwnLine;
use lab_measure::sample;
use lab_measure::stats::Spread;
use lab_targets::Policy;
use lab_targets::{Name, Subject, Waited};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

const THREADS: [usize; 1] = [1000];
const BUDGET_S: f64 = 5.0;
const SECTION: &str = "wake many";

/// What all sleep at.
pub type Word = Arc<OwnLine<AtomicU32>>;

struct Competitor {
    name: Name,
    threads: usize,
    policy: Policy,
    subject: Arc<dyn Subject>,
}

/// Measures every target, interleaved.
pub fn run(lab: &mut Lab<'_>) -> Result<Outcome> {
    let mut notes = Vec::new();
    let threads = lab.threads(&THREADS, &mut notes);
    let nwakes = lab.settings.nwakers.unwrap_or(1);
    let mut competitors = Vec::new();
    for threads in threads.iter().copied() {
        for name in lab.sleeping_targets() {
            let (policy, subject) = lab.small_table(name, threads)?;
            competitors.push(Competitor { name, threads, policy, subject });
        }
    }
    let sleepers = Sleepers::new(lab, threads.iter().copied().max().unwrap_or(1))?;
    let course = course(lab, BUDGET_S, competitors.iter().map(|one| one.threads));
    let stage = format!("wake, {nwakes} at once: {} rows, {} rounds", competitors.len(), course.rounds);
    let progress = lab.progress(&stage, course.rounds);
    let word = Word::default();
    let samples = sample::rounds(course, competitors.len(), &progress, |number| {
        let one = &competitors[number];
        let elapsed = wake_all(&sleepers, &one.subject, &word, one.threads, nwakes)?;
        Ok(elapsed.as_nanos() as f64 / one.threads as f64)
    })?;
    drop(progress);
    for (one, samples) in competitors.iter().zip(&samples) {
        lab.series.put((SECTION, one.name.text(), one.threads), samples.clone());
    }
    let rows = competitors.iter().zip(&samples).map(|(one, samples)| row(lab, one, nwakes, samples)).collect();
    Ok(Outcome { rows, notes })
}

/// Has so many threads sleep at the word, and wakes them all; what all calls took together.
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
        let_go(threads - woken, || subject.wake_many(&word.0, threads));
        // Otherwise some did not sleep yet.
        (woken == threads && calls == threads.div_ceil(nwakes)).then_some(elapsed)
    })
}

fn row(lab: &Lab<'_>, one: &Competitor, nwakes: usize, samples: &[f64]) -> Row {
    let key = |name: Name| (SECTION, name.text(), one.threads);
    one.subject.make_ready();
    Row {
        futexes: 1,
        buckets: one.subject.buckets(),
        policy: one.name.is_ours().then(|| super::hammer::policy_name(one.name, one.policy)),
        nwakes: Some(nwakes),
        ns_per_op: Some(Spread::of(samples)),
        ratio_kernel: lab.series.ratio(key(one.name), key(Name::Kernel)),
        ratio_parking_lot: lab.series.ratio(key(one.name), key(Name::ParkingLot)),
        repeat: samples.len(),
        ..Row::new(lab, "wake", one.name, one.threads)
    }
}
