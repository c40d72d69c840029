//! Throughput over time: before, during and after a resize under hammering threads.

use super::Effort;
use crate::resize::GIVE_UP;
use crate::workload::plain;
use crate::{Lab, workers};
use anyhow::{Result, anyhow};
use lab_measure::clock;
use lab_measure::pool::{Gate, Pool};
use lab_measure::sample::Rounds;
use lab_targets::Policy;
use lab_targets::loops::Timeline;
use lab_targets::{Layout, Name, Shape, Words};
use serde::Serialize;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Slots before and after.
pub const SIZES: (usize, usize) = (16, 1024);
/// Length of one step of the timeline.
pub const STEP_MS: f64 = 2.0;
/// Time that the timeline shows before the request …
pub const BEFORE_MS: f64 = 30.0;
/// … and at least after it.
pub const AFTER_MS: f64 = 250.0;
/// Threads of each CPU. A scheme that waits for all threads to leave the table waits also for those that do not run.
const THREADS_PER_CPU: usize = 8;
const ROUNDS: usize = 5;

/// Number of threads that hammer on a machine with this many CPUs.
pub fn threads(cpus: usize) -> usize {
    THREADS_PER_CPU * cpus.min(32)
}

/// One resize under load.
#[derive(Clone, Debug)]
pub struct Once {
    /// Time until the request returned. Its thread may have waited for a CPU after the new size was in effect.
    pub took_ms: f64,
    /// Whether the new size came into effect.
    pub completed: bool,
    /// Operations per second of all threads, in millions, in steps from `BEFORE_MS` before the request.
    pub mops: Vec<f64>,
}

/// The rounds of one target.
#[derive(Clone, Debug)]
pub struct Resized {
    /// The target.
    pub name: Name,
    /// Number of threads that hammer.
    pub threads: usize,
    /// Every round, the fastest resize first.
    pub rounds: Vec<Once>,
}

/// One row for `--json`.
#[derive(Serialize)]
pub struct CourseRow {
    workload: &'static str,
    target: &'static str,
    threads: usize,
    from: usize,
    to: usize,
    repeat: usize,
    resize_us: f64,
    completed_share: f64,
    step_ms: f64,
    /// The timeline of the median round. `compare` ignores it.
    mops: Vec<f64>,
}

impl Resized {
    /// The round with the median time.
    pub fn middle(&self) -> Option<&Once> {
        self.rounds.get(self.rounds.len() / 2)
    }

    /// Rounds in which the new size came into effect.
    pub fn completed(&self) -> usize {
        self.rounds.iter().filter(|once| once.completed).count()
    }

    /// The row for `--json`.
    pub fn row(&self) -> Option<CourseRow> {
        let middle = self.middle()?;
        Some(CourseRow {
            workload: "resize-rounds",
            target: self.name.text(),
            threads: self.threads,
            from: SIZES.0,
            to: SIZES.1,
            repeat: self.rounds.len(),
            resize_us: 1000.0 * middle.took_ms,
            completed_share: self.completed() as f64 / self.rounds.len() as f64,
            step_ms: STEP_MS,
            mops: middle.mops.iter().map(|mops| (mops * 100.0).round() / 100.0).collect(),
        })
    }
}

/// Measures every target that can resize.
pub fn run(lab: &Lab<'_>, effort: Effort) -> Result<Vec<Resized>> {
    let threads = threads(lab.cpus.len());
    let mut names = vec![Name::Live, Name::Atomic, Name::PerCpu];
    names.extend(lab_targets::kernel_has_private_hash().then_some(Name::Kernel));
    let (pool, words) = (Pool::new(threads, &lab.cpus)?, workers::words(&plain(), threads));
    let rounds = if effort.is_quick() { 1 } else { ROUNDS };
    let progress = lab.progress("resize: throughput over time", rounds);
    let rounds = Rounds { count: rounds, warm_up: !effort.is_quick(), limit: None };
    let samples = lab.rounds(rounds, names.len(), &progress, |number| once(&pool, &words, names[number], threads))?;
    let all = names.into_iter().zip(samples).filter(|(_, rounds)| !rounds.is_empty());
    Ok(all
        .map(|(name, mut rounds)| {
            rounds.sort_by(|a, b| a.took_ms.total_cmp(&b.took_ms));
            Resized { name, threads, rounds }
        })
        .collect())
}

fn once(pool: &Pool, words: &Arc<Vec<Words>>, name: Name, threads: usize) -> Result<Once> {
    let shape = Shape::new(Layout::Lean, Policy::Fixed(SIZES.0));
    let subject = lab_targets::build(name, &shape)?;
    subject.make_ready();
    let ticks_per_ms = 1e6 / clock::nanoseconds_per_tick();
    let steps = (((BEFORE_MS + AFTER_MS) / STEP_MS) + 60.0) as usize;
    let timeline = Timeline::new((STEP_MS * ticks_per_ms) as u64, steps);
    let gate = Gate::new(threads);
    let job = {
        let (subject, words, gate) = (subject.clone(), words.clone(), gate.clone());
        move |worker: usize| subject.hammer_timeline(&words[worker], &gate, timeline)
    };
    let (mut resized, mut asked, mut took_ms) = (Ok(false), 0, 0.0);
    let counts = pool.run(threads, job, || {
        gate.sleep_until_passed();
        std::thread::sleep(Duration::from_secs_f64((BEFORE_MS + 3.0 * STEP_MS) / 1000.0));
        asked = clock::ticks();
        let start = Instant::now();
        resized = subject.set_slots(SIZES.1, &mut || start.elapsed() < GIVE_UP);
        took_ms = start.elapsed().as_secs_f64() * 1000.0;
        std::thread::sleep(Duration::from_secs_f64(((AFTER_MS - took_ms).max(20.0)) / 1000.0));
        gate.stop();
    })?;
    let completed = resized.map_err(|reason| anyhow!("{name}: {reason}"))?;
    let asked_step = (asked - timeline.start) as f64 / timeline.step as f64;
    let first = (asked_step - BEFORE_MS / STEP_MS).max(0.0) as usize;
    let mops = (first..first + ((BEFORE_MS + AFTER_MS) / STEP_MS) as usize).map(|step| {
        let operations: u64 = counts.iter().map(|counts| counts.get(step).copied().unwrap_or(0)).sum();
        operations as f64 / (STEP_MS * 1000.0)
    });
    Ok(Once { took_ms, completed, mops: mops.collect() })
}

/// The mean rate in part of a timeline. (Threads that share a CPU work in bursts.) `None` if the part is shorter than
/// three steps.
pub fn rate(once: &Once, from_ms: f64, to_ms: f64) -> Option<f64> {
    let step = |ms: f64| ((ms + BEFORE_MS) / STEP_MS).max(0.0);
    let (from, to) = (step(from_ms).ceil() as usize, (step(to_ms) as usize).min(once.mops.len()));
    (from + 3 <= to).then(|| once.mops[from..to].iter().sum::<f64>() / (to - from) as f64)
}
