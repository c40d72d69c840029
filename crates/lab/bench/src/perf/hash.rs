//! `perf bench futex hash`.

use super::{Bench, Line, Stats};
use crate::Sink;
use crate::arena;
use anyhow::{Result, ensure};
use lab_measure::pool::{Gate, Pool};
use lab_targets::Operation;

/// Every thread waits on its words, which differ, again and again.
pub fn run(bench: &Bench<'_>, sink: &mut dyn Sink) -> Result<()> {
    let (settings, runtime) = (bench.settings(), bench.runtime());
    sink.perf(Line::Summary(format!(
        "{} threads, each operating on {} [{}] futexes for {} secs.",
        bench.threads,
        settings.futexes,
        bench.privacy(),
        runtime.as_secs_f64()
    )))?;
    let pool = Pool::new(bench.threads, &bench.lab.cpus)?;
    let words = arena::words(settings, bench.threads);
    let gate = Gate::new(bench.threads);
    let job = {
        let (subject, words, gate) = (bench.subject.clone(), words.clone(), gate.clone());
        move |worker: usize| subject.hammer(Operation::WaitDiffers, &words[worker], &gate)
    };
    let tallies = pool.run(bench.threads, job, || gate.stop_after(runtime))?;
    ensure!(tallies.iter().all(|tally| tally.failed == 0), "not all waits ended with EAGAIN");
    let (rates, elapsed) = super::rates(&tallies);
    if !settings.silent {
        for (thread, rate) in rates.iter().enumerate() {
            let (first, last) = (words[thread].word(0), words[thread].word(settings.futexes - 1));
            let futexes = match settings.futexes {
                1 => format!("futex: {first:p}"),
                _ => format!("futexes: {first:p} ... {last:p}"),
            };
            sink.perf(Line::Text(format!("[thread {thread:2}] {futexes} [ {rate:.0} ops/sec ]")))?;
        }
    }
    sink.perf(Line::Averaged { silent: settings.silent, rates: Stats::of(rates.into_iter()), runtime: elapsed })
}
