//! `lock-pi`, as in perf: threads lock and unlock by the calls alone, one lock for all or one for each.

use crate::hammer::times_and_rate;
use crate::workers::{self, Sample};
use crate::{Entrant, Head, Lab, Ratios, rows_of};
use anyhow::{Result, ensure};
use lab_measure::machine::OwnLine;
use lab_measure::pool::{Gate, Pool};
use lab_measure::stats::Spread;
use lab_targets::Name;
use lab_targets::loops::Tally;
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

const THREADS: [usize; 2] = [1, 2];
const BUDGET_S: f64 = 5.0;

/// Section of the results in `Lab::series`.
pub const SECTION: &str = "lock-pi";

/// Settings of `lock-pi`.
#[derive(Clone, Debug, Default)]
pub struct LockPi {
    /// `-t`. `None` means the workload's defaults.
    pub threads: Option<Vec<usize>>,
    /// `-M`: a lock for each thread.
    pub multi: bool,
    /// `--hold`, if given: how long a thread sleeps while it holds the lock.
    pub hold: Option<Duration>,
}

/// One row of the results.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Target, threads and setup.
    #[serde(flatten)]
    pub head: Head,
    /// Whether each thread has its own lock.
    pub multi: bool,
    /// How long a thread sleeps while it holds the lock.
    pub hold_us: u64,
    /// Time of one lock and unlock, as a thread sees it.
    pub ns_per_op: Spread,
    /// Rate of all threads together; median over the rounds.
    pub ops_per_sec: f64,
    /// This row's time divided by the kernel's, round by round.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_kernel: Option<f64>,
}

struct Competitor {
    entrant: Entrant,
    locks: Arc<Vec<OwnLine<AtomicU32>>>,
}

/// Measures the targets with priority inheritance, one sample of each in a round.
pub fn run(lab: &mut Lab<'_>, asked: &LockPi, notes: &mut Vec<String>) -> Result<Vec<Row>> {
    let threads = lab.threads(&asked.threads, &THREADS, notes);
    let competitors = line_up(lab, asked, &threads, notes)?;
    if competitors.is_empty() {
        return Ok(Vec::new());
    }
    let pool = Pool::new(threads.iter().copied().max().unwrap_or(1), &lab.cpus)?;
    let pace = lab.pace(BUDGET_S, competitors.len());
    let stage = format!("{SECTION}: {} rows, {} rounds", competitors.len(), pace.rounds.count);
    let progress = lab.progress(&stage, pace.rounds.count);
    let samples = lab.rounds(pace.rounds, competitors.len(), &progress, |number| {
        once(lab, asked, &pool, &competitors[number], pace.sample)
    })?;
    drop(progress);
    for (one, samples) in competitors.iter().zip(&samples) {
        let times = samples.iter().map(|sample| sample.ns_per_op).collect();
        lab.series.put((SECTION, one.entrant.name.text(), one.entrant.threads), times);
    }
    Ok(rows_of(&competitors, &samples, |one, samples| row(lab, asked, one, samples)))
}

fn line_up(lab: &Lab<'_>, asked: &LockPi, threads: &[usize], notes: &mut Vec<String>) -> Result<Vec<Competitor>> {
    let settings = lab.settings;
    if settings.targets.contains(&Name::ParkingLot) {
        notes.push("parking_lot left out: it has no locks with priority inheritance".to_string());
    }
    let mut competitors = Vec::new();
    for threads in threads.iter().copied() {
        for name in settings.targets.iter().copied().filter(|name| name.has_pi()) {
            let entrant = lab.small_table(name, threads)?;
            let count = if asked.multi { threads } else { 1 };
            let locks = Arc::new((0..count).map(|_| OwnLine::default()).collect());
            competitors.push(Competitor { entrant, locks });
        }
    }
    Ok(competitors)
}

/// One sample. If no thread has to wait for another, a disturbed sample is taken again.
fn once(lab: &Lab<'_>, asked: &LockPi, pool: &Pool, one: &Competitor, length: Duration) -> Result<Sample> {
    let Entrant { threads, subject, .. } = &one.entrant;
    subject.make_ready();
    let hold = asked.hold.filter(|hold| !hold.is_zero());
    let needs_nobody = one.locks.len() == *threads && *threads <= lab.own_cpus() && hold.is_none();
    let mut tallies = Vec::new();
    for _ in 0..workers::TRIES {
        tallies = hammer(pool, one, hold, length)?;
        if !needs_nobody || !workers::is_disturbed(&tallies) {
            break;
        }
    }
    Ok(Sample::of(&tallies))
}

fn hammer(pool: &Pool, one: &Competitor, hold: Option<Duration>, length: Duration) -> Result<Vec<Tally>> {
    let Entrant { name, threads, subject, .. } = &one.entrant;
    let gate = Gate::new(*threads);
    let job = {
        let (subject, locks, gate) = (subject.clone(), one.locks.clone(), gate.clone());
        move |worker: usize| subject.hammer_pi(&locks[worker % locks.len()].0, hold, &gate)
    };
    let tallies = pool.run(*threads, job, || gate.stop_after(length))?;
    let failed: u64 = tallies.iter().map(|tally| tally.failed).sum();
    ensure!(failed == 0, "{name}: {failed} locks or unlocks failed");
    Ok(tallies)
}

fn row(lab: &Lab<'_>, asked: &LockPi, one: &Competitor, samples: &[Sample]) -> Row {
    let (times, rate) = times_and_rate(samples);
    let Entrant { name, threads, .. } = one.entrant;
    Row {
        head: one.entrant.head(lab, SECTION, one.locks.len(), samples.len()),
        multi: asked.multi,
        hold_us: asked.hold.unwrap_or_default().as_micros() as u64,
        ns_per_op: times,
        ops_per_sec: rate,
        ratio_kernel: Ratios::of(&lab.series, SECTION, name.text(), threads).kernel,
    }
}
