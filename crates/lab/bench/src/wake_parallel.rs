//! `wake-parallel`, perf's: threads sleep at one word, and several others wake an equal share of them each, in one call,
//! at the same time.

use super::requeue::course;
use super::sleepers::{Sleepers, let_go};
use super::wake_many::Word;
use super::{Lab, Outcome};
use crate::Row;
use anyhow::Result;
use lab_measure::pool::{Gate, Pool};
use lab_measure::sample;
use lab_measure::stats::Spread;
use lab_targets::Policy;
use lab_targets::{Name, Subject, Waited};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Threads that sleep.
pub const THREADS: [usize; 1] = [1000];
const NWAKERS: usize = 2;
const BUDGET_S: f64 = 5.0;
const SECTION: &str = "wake-parallel";

struct Competitor {
    name: Name,
    policy: Policy,
    alarm: Alarm,
}

/// Who sleeps, and who wakes.
pub struct Alarm {
    /// Whose futexes.
    pub subject: Arc<dyn Subject>,
    /// Threads that sleep.
    pub threads: usize,
    /// Threads that wake an equal share each.
    pub nwakers: usize,
}

/// Measures every target, interleaved.
pub fn run(lab: &mut Lab<'_>) -> Result<Outcome> {
    let mut notes = Vec::new();
    let threads = lab.threads(&THREADS, &mut notes);
    let competitors = line_up(lab, &threads)?;
    let sleepers = Sleepers::new(lab, threads.iter().copied().max().unwrap_or(1))?;
    let wakers = Pool::new(competitors.iter().map(|one| one.alarm.nwakers).max().unwrap_or(1), &lab.cpus)?;
    let course = course(lab, BUDGET_S, competitors.iter().map(|one| one.alarm.threads));
    let stage = format!("{SECTION}: {} rows, {} rounds", competitors.len(), course.rounds);
    let progress = lab.progress(&stage, course.rounds);
    let word = Word::default();
    let samples = sample::rounds(course, competitors.len(), &progress, |number| {
        let alarm = &competitors[number].alarm;
        let shares = wake_up(&sleepers, &wakers, alarm, &word)?;
        let time: Duration = shares.iter().map(|(_, elapsed)| *elapsed).sum();
        Ok(time.as_nanos() as f64 / alarm.threads as f64)
    })?;
    drop(progress);
    for (one, samples) in competitors.iter().zip(&samples) {
        lab.series.put((SECTION, one.name.text(), one.alarm.threads), samples.clone());
    }
    let rows = competitors.iter().zip(&samples).map(|(one, samples)| row(lab, one, samples)).collect();
    Ok(Outcome { rows, notes })
}

fn line_up(lab: &Lab<'_>, threads: &[usize]) -> Result<Vec<Competitor>> {
    let mut competitors = Vec::new();
    for threads in threads.iter().copied() {
        let nwakers = nwakers(lab, threads);
        for name in lab.sleeping_targets() {
            let (policy, subject) = lab.small_table(name, threads)?;
            competitors.push(Competitor { name, policy, alarm: Alarm { subject, threads, nwakers } });
        }
    }
    Ok(competitors)
}

/// As perf: no more than there are threads to wake. What is asked for divides them (`settings` has seen to it); the
/// default is one where it would not.
fn nwakers(lab: &Lab<'_>, threads: usize) -> usize {
    let default = if threads.is_multiple_of(NWAKERS) { NWAKERS.min(lab.cpus.len()) } else { 1 };
    lab.settings.nwakers.unwrap_or(default).min(threads)
}

/// Has all sleep, and all wakers wake theirs: how many each woke, and what its call took.
pub fn wake_up(sleepers: &Sleepers, wakers: &Pool, alarm: &Alarm, word: &Word) -> Result<Vec<(usize, Duration)>> {
    alarm.subject.make_ready();
    let wait = {
        let (subject, word) = (alarm.subject.clone(), word.clone());
        move || subject.wait(&word.0, 0) == Waited::Woken
    };
    sleepers.sample(alarm.threads, wait, || {
        let shares = wake(wakers, alarm, word);
        let woken: usize = shares.iter().map(|(woken, _)| woken).sum();
        let_go(alarm.threads - woken, || alarm.subject.wake_many(&word.0, alarm.threads));
        (woken == alarm.threads).then_some(shares)
    })
}

fn wake(wakers: &Pool, alarm: &Alarm, word: &Word) -> Vec<(usize, Duration)> {
    let gate = Gate::new(alarm.nwakers);
    let (subject, word, share) = (alarm.subject.clone(), word.clone(), alarm.threads / alarm.nwakers);
    let job = move |_waker: usize| {
        gate.pass_together();
        let start = Instant::now();
        let woken = subject.wake_many(&word.0, share);
        (woken, start.elapsed())
    };
    // A waker that has ended has woken nobody: the others are let go all the same, and the sample does not count.
    wakers.run(alarm.nwakers, job, || {}).unwrap_or_default()
}

fn row(lab: &Lab<'_>, one: &Competitor, samples: &[f64]) -> Row {
    let key = |name: Name| (SECTION, name.text(), one.alarm.threads);
    one.alarm.subject.make_ready();
    Row {
        futexes: 1,
        buckets: one.alarm.subject.buckets(),
        policy: one.name.is_ours().then(|| super::hammer::policy_name(one.name, one.policy)),
        nwakers: Some(one.alarm.nwakers),
        ns_per_op: Some(Spread::of(samples)),
        ratio_kernel: lab.series.ratio(key(one.name), key(Name::Kernel)),
        ratio_parking_lot: lab.series.ratio(key(one.name), key(Name::ParkingLot)),
        repeat: samples.len(),
        ..Row::new(lab, SECTION, one.name, one.alarm.threads)
    }
}
