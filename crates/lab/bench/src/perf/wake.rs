//! `perf bench futex wake`.

use super::{Bench, Stats, milliseconds, print};
use crate::workloads::sleepers::Sleepers;
use crate::workloads::wake_many::{Word, wake_all};
use anyhow::Result;

/// Threads sleep at one word, and are woken so many at a time.
pub fn run(bench: &Bench<'_>) -> Result<()> {
    let threads = bench.threads;
    let nwakes = bench.settings().nwakers.unwrap_or(1);
    let word = Word::default();
    print::summary(&format!(
        "blocking on {threads} threads (at [{}] futex {:p}), waking up {nwakes} at a time.",
        bench.privacy(),
        &word.0
    ))?;
    let sleepers = Sleepers::new(bench.lab, threads)?;
    let mut all = Stats::default();
    for run in bench.runs() {
        let ms = milliseconds(wake_all(&sleepers, &bench.subject, &word, threads, nwakes)?);
        all.update(ms);
        if !bench.settings().silent {
            print::line(&format!("[Run {run}]: Wokeup {threads} of {threads} threads in {ms:.4} ms"))?;
        }
    }
    print::line(&format!("Wokeup {threads} of {threads} threads in {:.4} ms (+-{:.2}%)", all.mean, all.percent()))
}
