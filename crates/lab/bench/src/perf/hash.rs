//! `perf bench futex hash`.

use super::{Bench, Line, Stats};
use crate::Sink;
use crate::hammer::Hammer;
use crate::workers;
use anyhow::{Result, ensure};
use lab_measure::pool::{Gate, Pool};
use lab_targets::Operation;

/// Every thread repeats waits on its words, which differ from the expected value.
pub fn run(bench: &Bench<'_>, asked: &Hammer, sink: &mut dyn Sink) -> Result<()> {
    let (settings, runtime) = (bench.settings(), bench.runtime());
    sink.perf(Line::Summary(format!(
        "{} threads, each operating on {} [{}] futexes for {} secs.",
        bench.threads,
        asked.futexes,
        bench.privacy(),
        runtime.as_secs_f64()
    )))?;
    let pool = Pool::new(bench.threads, &bench.lab.cpus)?;
    let words = workers::words(asked, bench.threads);
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
            let (first, last) = (words[thread].word(0), words[thread].word(asked.futexes - 1));
            let futexes = match asked.futexes {
                1 => format!("futex: {first:p}"),
                _ => format!("futexes: {first:p} ... {last:p}"),
            };
            sink.perf(Line::Text(format!("[thread {thread:2}] {futexes} [ {rate:.0} ops/sec ]")))?;
        }
    }
    sink.perf(Line::Averaged { silent: settings.silent, rates: Stats::of(rates.into_iter()), runtime: elapsed })
}
