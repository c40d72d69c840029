//! The workers of a hammering workload, their words, and its samples.

use crate::Lab;
use crate::flags;
use anyhow::{Result, ensure};
use lab_measure::interrupt;
use lab_measure::pool::{Gate, Pool};
use lab_targets::loops::Tally;
use lab_targets::{Operation, Subject, Words};
use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A table is settled when its size has not changed for this time under load …
const SETTLED: Duration = Duration::from_millis(150);
/// … or after this time in any case.
const SETTLE_MAX: Duration = Duration::from_secs(3);
const SETTLE_STEP: Duration = Duration::from_millis(15);

/// A sample is disturbed if a thread had its CPU for less than this share of it: other work ran there.
const UNDISTURBED_MIN: f64 = 0.95;
/// Number of times that a disturbed sample is taken …
pub const TRIES: usize = 2;
/// … if it takes less than this.
pub const RETAKEN_MAX: Duration = Duration::from_millis(100);
/// A note is printed if more than this share of the samples was disturbed.
const DISTURBED_SHARE_MAX: f64 = 0.2;

/// One sample of a hammered target.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Time of one operation, as a thread sees it.
    pub ns_per_op: f64,
    /// Rate of all threads together.
    pub ops_per_sec: f64,
}

impl Sample {
    /// Times of all threads begin when the first one passes the gate. With more threads than CPUs, a thread that gets
    /// its first time slice late has waited for it.
    pub fn of(tallies: &[Tally]) -> Sample {
        let operations: u64 = tallies.iter().map(|tally| tally.operations).sum();
        let start = tallies.iter().map(|tally| tally.start).min().unwrap_or_else(Instant::now);
        let elapsed = || tallies.iter().map(|tally| tally.end - start);
        let thread_time: Duration = elapsed().sum();
        let whole_time = elapsed().max().unwrap_or_default();
        Sample {
            ns_per_op: thread_time.as_nanos() as f64 / operations as f64,
            ops_per_sec: operations as f64 / whole_time.as_secs_f64(),
        }
    }
}

/// Counts samples, and those in which other work ran on the threads' CPUs.
#[derive(Default)]
pub struct Disturbances {
    samples: Cell<usize>,
    disturbed: Cell<usize>,
}

impl Disturbances {
    /// Counts a sample.
    pub fn count(&self, is_disturbed: bool) {
        self.samples.update(|count| count + 1);
        self.disturbed.update(|count| count + usize::from(is_disturbed));
    }

    /// A sample of what `hammer` does. If each thread has a CPU to itself, a disturbed sample is taken again.
    pub fn sample(&self, has_cpus: bool, hammer: impl Fn() -> Result<Vec<Tally>>) -> Result<Sample> {
        let (mut tallies, mut disturbed) = (Vec::new(), true);
        for _ in 0..TRIES {
            tallies = hammer()?;
            disturbed = has_cpus && is_disturbed(&tallies);
            if !disturbed {
                break;
            }
        }
        self.count(disturbed);
        Ok(Sample::of(&tallies))
    }

    /// The note on disturbed samples, if they were more than `DISTURBED_SHARE_MAX`.
    pub fn remark(&self) -> Option<String> {
        let share = self.disturbed.get() as f64 / self.samples.get().max(1) as f64;
        (share > DISTURBED_SHARE_MAX)
            .then(|| format!("in {:.0} % of the samples other work ran on the threads' CPUs: {ROUGH}", 100.0 * share))
    }
}

/// Has `threads` threads do `job` for `length`. `what` is the operation. An error if one had a wrong result.
pub fn hammer(
    pool: &Pool,
    threads: usize,
    length: Duration,
    what: impl fmt::Display,
    job: impl Fn(usize, &Gate) -> Tally + Send + Sync + 'static,
) -> Result<Vec<Tally>> {
    let gate = Gate::new(threads);
    let theirs = gate.clone();
    let tallies = pool.run(threads, move |worker| job(worker, &theirs), || gate.stop_after(length))?;
    let failed: u64 = tallies.iter().map(|tally| tally.failed).sum();
    ensure!(failed == 0, "{failed} operations of {what} had a wrong result");
    Ok(tallies)
}

/// The workers and their words.
pub struct Workers {
    pool: Pool,
    words: Arc<Vec<Words>>,
    own_cpus: usize,
    disturbances: Disturbances,
}

impl Workers {
    /// Makes `threads` workers and their words.
    pub fn new(lab: &Lab<'_>, words: &flags::Words, threads: usize) -> Result<Workers> {
        Ok(Workers {
            pool: Pool::new(threads, &lab.cpus)?,
            words: self::words(words, threads),
            own_cpus: lab.own_cpus(),
            disturbances: Disturbances::default(),
        })
    }

    /// Has `threads` workers repeat the operation for `length`. Repeats the sample if they were disturbed.
    pub fn sample(
        &self,
        subject: &Arc<dyn Subject>,
        threads: usize,
        operation: Operation,
        length: Duration,
    ) -> Result<Sample> {
        subject.make_ready();
        let has_cpus = threads <= self.own_cpus;
        self.disturbances.sample(has_cpus, || self.hammer(subject, threads, operation, length))
    }

    fn hammer(
        &self,
        subject: &Arc<dyn Subject>,
        threads: usize,
        operation: Operation,
        length: Duration,
    ) -> Result<Vec<Tally>> {
        let (subject, words) = (subject.clone(), self.words.clone());
        let job = move |worker: usize, gate: &Gate| subject.hammer(operation, &words[worker], gate);
        hammer(&self.pool, threads, length, format_args!("{operation:?}"), job)
    }

    /// The note on disturbed samples, if there were too many.
    pub fn remark(&self) -> Option<String> {
        self.disturbances.remark()
    }

    /// Hammers with waits until the table keeps its size. Returns that size.
    pub fn settle(&self, subject: &Arc<dyn Subject>, threads: usize) -> Result<Option<usize>> {
        let start = Instant::now();
        let (mut size, mut since) = (subject.buckets(), start);
        while since.elapsed() < SETTLED && start.elapsed() < SETTLE_MAX && !interrupt::requested() {
            self.hammer(subject, threads, Operation::WaitDiffers, SETTLE_STEP)?;
            if subject.buckets() != size {
                (size, since) = (subject.buckets(), Instant::now());
            }
        }
        Ok(size)
    }

    /// Waits on every worker for 200 us, so that the table exists before the first sample.
    pub fn prime(&self, subject: &Arc<dyn Subject>, threads: usize) -> Result<()> {
        self.hammer(subject, threads, Operation::WaitDiffers, Duration::from_micros(200)).map(|_| ())
    }
}

/// Whether a thread had no CPU for part of the time.
fn is_disturbed(tallies: &[Tally]) -> bool {
    tallies.iter().any(|tally| had_no_cpu(tally.on_cpu, tally.end - tally.start))
}

/// Whether a thread had its CPU for less than `UNDISTURBED_MIN` of `elapsed`.
pub fn had_no_cpu(on_cpu: Duration, elapsed: Duration) -> bool {
    on_cpu.as_secs_f64() < UNDISTURBED_MIN * elapsed.as_secs_f64()
}

/// How a note ends if the figures should not be relied on. The summary repeats such notes.
pub const ROUGH: &str = "the figures are rough";

/// An array of words for each worker.
pub fn words(words: &flags::Words, threads: usize) -> Arc<Vec<Words>> {
    Arc::new((0..threads).map(|_| Words::new(words.number.futexes, words.stride)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_get_their_slice_late_do_not_raise_the_rate() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let tally = |from, to| {
            let on_cpu = Duration::from_millis(to - from);
            Tally { operations: 1_000_000, start: at(from), end: at(to), on_cpu, failed: 0 }
        };
        // Two threads take turns on one CPU: 2 M operations in 20 ms. One thread sees 10 ns for each, the other 20 ns.
        let sample = Sample::of(&[tally(0, 10), tally(10, 20)]);
        assert_eq!(sample.ops_per_sec, 1e8);
        assert_eq!(sample.ns_per_op, 15.0);
    }

    #[test]
    fn a_sample_is_disturbed_when_one_thread_had_no_cpu_for_a_while() {
        let start = Instant::now();
        let tally = |on_cpu_ms| Tally {
            operations: 1,
            start,
            end: start + Duration::from_millis(10),
            on_cpu: Duration::from_millis(on_cpu_ms),
            failed: 0,
        };
        assert!(!is_disturbed(&[tally(10), tally(10)]));
        assert!(is_disturbed(&[tally(10), tally(7)]));
    }
}
