//! `perf bench futex lock-pi`.

use super::{Bench, Line, Stats};
use crate::Sink;
use crate::lock_pi::LockPi;
use anyhow::{Result, ensure};
use lab_measure::machine::OwnLine;
use lab_measure::pool::{Gate, Pool};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Time that perf sleeps while it holds the lock.
const HOLD: Duration = Duration::from_micros(1);

/// Every thread repeats: lock, sleep for a microsecond, unlock.
pub fn run(bench: &Bench<'_>, asked: &LockPi, sink: &mut dyn Sink) -> Result<()> {
    let (settings, runtime) = (bench.settings(), bench.runtime());
    sink.perf(Line::Summary(format!(
        "{} threads doing pi lock/unlock pairing for {} secs.",
        bench.threads,
        runtime.as_secs_f64()
    )))?;
    let count = if asked.multi { bench.threads } else { 1 };
    let locks: Arc<Vec<OwnLine<AtomicU32>>> = Arc::new((0..count).map(|_| OwnLine::default()).collect());
    let hold = Some(asked.hold.unwrap_or(HOLD)).filter(|hold| !hold.is_zero());
    let pool = Pool::new(bench.threads, &bench.lab.cpus)?;
    let gate = Gate::new(bench.threads);
    let job = {
        let (subject, locks, gate, hold) = (bench.subject.clone(), locks.clone(), gate.clone(), hold);
        move |worker: usize| subject.hammer_pi(&locks[worker % locks.len()].0, hold, &gate)
    };
    let tallies = pool.run(bench.threads, job, || gate.stop_after(runtime))?;
    ensure!(tallies.iter().all(|tally| tally.failed == 0), "some locks or unlocks failed");
    let (rates, elapsed) = super::rates(&tallies);
    if !settings.silent {
        for (thread, rate) in rates.iter().enumerate() {
            let lock = &locks[thread % count].0;
            sink.perf(Line::Text(format!("[thread {thread:3}] futex: {lock:p} [ {rate:.0} ops/sec ]")))?;
        }
    }
    sink.perf(Line::Averaged { silent: settings.silent, rates: Stats::of(rates.into_iter()), runtime: elapsed })
}
