//! `lock-pi`, perf's: threads lock and unlock, through the calls alone, one lock for all or one for each.

use super::arena::{self, Sample};
use super::{Lab, Outcome};
use crate::Row;
use anyhow::{Result, ensure};
use lab_measure::machine::OwnLine;
use lab_measure::pool::{Gate, Pool};
use lab_measure::sample::{self, Pace};
use lab_measure::stats::Spread;
use lab_targets::Policy;
use lab_targets::loops::Tally;
use lab_targets::{Name, Subject};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

const THREADS: [usize; 2] = [1, 2];
const BUDGET_S: f64 = 5.0;

/// The section in the series.
pub const SECTION: &str = "lock-pi";

struct Competitor {
    name: Name,
    threads: usize,
    policy: Policy,
    subject: Arc<dyn Subject>,
    locks: Arc<Vec<OwnLine<AtomicU32>>>,
}

/// Measures every target that has such locks, interleaved.
pub fn run(lab: &mut Lab<'_>) -> Result<Outcome> {
    let mut notes = Vec::new();
    let threads = lab.threads(&THREADS, &mut notes);
    let competitors = line_up(lab, &threads, &mut notes)?;
    if competitors.is_empty() {
        return Ok(Outcome { rows: Vec::new(), notes });
    }
    let pool = Pool::new(threads.iter().copied().max().unwrap_or(1), &lab.cpus)?;
    let settings = lab.settings;
    let pace = Pace::new(lab.budget(BUDGET_S), settings.runtime_s.is_some(), settings.repeat, competitors.len());
    let stage = format!("{SECTION}: {} rows, {} rounds", competitors.len(), pace.course.rounds);
    let progress = lab.progress(&stage, pace.course.rounds);
    let samples = sample::rounds(pace.course, competitors.len(), &progress, |number| {
        once(lab, &pool, &competitors[number], pace.sample)
    })?;
    drop(progress);
    for (one, samples) in competitors.iter().zip(&samples) {
        let times = samples.iter().map(|sample| sample.ns_per_op).collect();
        lab.series.put((SECTION, one.name.text(), one.threads), times);
    }
    let rows = competitors.iter().zip(&samples).map(|(one, samples)| row(lab, one, samples)).collect();
    Ok(Outcome { rows, notes })
}

fn line_up(lab: &Lab<'_>, threads: &[usize], notes: &mut Vec<String>) -> Result<Vec<Competitor>> {
    let settings = lab.settings;
    if settings.targets.contains(&Name::ParkingLot) {
        notes.push("parking_lot left out: it has no locks that lend priorities".to_string());
    }
    let mut competitors = Vec::new();
    for threads in threads.iter().copied() {
        for name in settings.targets.iter().copied().filter(|name| name.has_pi()) {
            let (policy, subject) = lab.small_table(name, threads)?;
            let count = if settings.multi { threads } else { 1 };
            let locks = Arc::new((0..count).map(|_| OwnLine::default()).collect());
            competitors.push(Competitor { name, threads, policy, subject, locks });
        }
    }
    Ok(competitors)
}

/// One sample; once more where a thread that need not wait for anybody had to.
fn once(lab: &Lab<'_>, pool: &Pool, one: &Competitor, length: Duration) -> Result<Sample> {
    one.subject.make_ready();
    let hold = lab.settings.hold;
    let needs_nobody = one.locks.len() == one.threads && one.threads <= lab.cpus.len() && hold.is_none();
    let mut tallies = Vec::new();
    for _ in 0..arena::TRIES {
        tallies = hammer(pool, one, hold, length)?;
        if !needs_nobody || !arena::is_disturbed(&tallies) {
            break;
        }
    }
    Ok(Sample::of(&tallies))
}

fn hammer(pool: &Pool, one: &Competitor, hold: Option<Duration>, length: Duration) -> Result<Vec<Tally>> {
    let gate = Gate::new(one.threads);
    let job = {
        let (subject, locks, gate) = (one.subject.clone(), one.locks.clone(), gate.clone());
        move |worker: usize| subject.hammer_pi(&locks[worker % locks.len()].0, hold, &gate)
    };
    let tallies = pool.run(one.threads, job, || gate.stop_after(length))?;
    let failed: u64 = tallies.iter().map(|tally| tally.failed).sum();
    ensure!(failed == 0, "{}: {failed} locks or unlocks failed", one.name);
    Ok(tallies)
}

fn row(lab: &Lab<'_>, one: &Competitor, samples: &[Sample]) -> Row {
    let times: Vec<_> = samples.iter().map(|sample| sample.ns_per_op).collect();
    let rates: Vec<_> = samples.iter().map(|sample| sample.ops_per_sec).collect();
    let key = |name: Name| (SECTION, name.text(), one.threads);
    one.subject.make_ready();
    Row {
        futexes: one.locks.len(),
        buckets: one.subject.buckets(),
        policy: one.name.is_ours().then(|| super::hammer::policy_name(one.name, one.policy)),
        multi: Some(lab.settings.multi),
        hold_us: Some(lab.settings.hold.unwrap_or_default().as_micros() as u64),
        ns_per_op: Some(Spread::of(&times)),
        ops_per_sec: Some(Spread::of(&rates).median),
        ratio_kernel: lab.series.ratio(key(one.name), key(Name::Kernel)),
        repeat: samples.len(),
        ..Row::new(lab, SECTION, one.name, one.threads)
    }
}
