//! `perf bench futex wake`.

use super::{Bench, Line, Stats, milliseconds};
use crate::Sink;
use crate::sleepers::Sleepers;
use crate::wake_many::{Word, wake_all};
use anyhow::Result;

/// Threads sleep on one word, and each call wakes `-w` of them.
pub fn run(bench: &Bench<'_>, nwakes: usize, sink: &mut dyn Sink) -> Result<()> {
    let threads = bench.threads;
    let word = Word::default();
    sink.perf(Line::Summary(format!(
        "blocking on {threads} threads (at [{}] futex {:p}), waking up {nwakes} at a time.",
        bench.privacy(),
        &word.0
    )))?;
    let sleepers = Sleepers::new(bench.lab, threads)?;
    let mut all = Stats::default();
    for run in bench.runs() {
        let ms = milliseconds(wake_all(&sleepers, &bench.subject, &word, threads, nwakes)?);
        all.update(ms);
        if !bench.settings().silent {
            sink.perf(Line::Text(format!("[Run {run}]: Wokeup {threads} of {threads} threads in {ms:.4} ms")))?;
        }
    }
    sink.perf(Line::Text(format!(
        "Wokeup {threads} of {threads} threads in {:.4} ms (+-{:.2}%)",
        all.mean,
        all.percent()
    )))
}
