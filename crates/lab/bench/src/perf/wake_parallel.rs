//! `perf bench futex wake-parallel`.

use super::{Bench, Line, Stats, milliseconds};
use crate::Sink;
use crate::sleepers::Sleepers;
use crate::wake_many::Word;
use crate::wake_parallel::{WakeSetup, wake_up};
use anyhow::Result;
use lab_measure::pool::Pool;

/// Threads sleep on one word, and each waker wakes an equal share of them.
pub fn run(bench: &Bench<'_>, nwakers: Option<usize>, sink: &mut dyn Sink) -> Result<()> {
    let threads = bench.threads;
    // As in perf: by default one waker for each sleeper.
    let nwakers = nwakers.unwrap_or(threads).min(threads);
    let share = threads / nwakers;
    let word = Word::default();
    sink.perf(Line::Summary(format!(
        "blocking on {threads} threads (at [{}] futex {:p}), {nwakers} threads waking up {share} at a time.",
        bench.privacy(),
        &word.0
    )))?;
    let (sleepers, wakers) = (Sleepers::new(bench.lab, threads)?, Pool::new(nwakers, &bench.lab.cpus)?);
    let setup = WakeSetup { subject: &bench.subject, threads, nwakers };
    let text = |stats: &Stats| {
        let (ms, percent) = (stats.mean, stats.percent());
        format!("Avg per-thread latency (waking {share}/{threads} threads) in {ms:.4} ms (+-{percent:.2}%)")
    };
    let mut all = Stats::default();
    for run in bench.runs() {
        let times = wake_up(&sleepers, &wakers, setup, &word)?.into_iter().map(|(_, time)| milliseconds(time));
        let times: Vec<f64> = times.collect();
        times.iter().for_each(|ms| all.update(*ms));
        if !bench.settings().silent {
            sink.perf(Line::Text(format!("[Run {run}]: {}", text(&Stats::of(times.into_iter())))))?;
        }
    }
    sink.perf(Line::Text(text(&all)))
}
