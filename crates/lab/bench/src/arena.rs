//! Where targets are hammered: the workers, their words, and one sample at a time.

use super::Lab;
use crate::settings::Settings;
use anyhow::{Result, ensure};
use lab_measure::interrupt;
use lab_measure::pool::{Gate, Pool};
use lab_targets::loops::Tally;
use lab_targets::{Operation, Subject, Words};
use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A table counts as settled when its size has not changed for so long under the load …
const SETTLED: Duration = Duration::from_millis(150);
/// … and is taken as it is after so long.
const SETTLE_MAX: Duration = Duration::from_secs(3);
const SETTLE_STEP: Duration = Duration::from_millis(15);

/// Where a thread has its CPU for less of a sample, somebody else's work has run there …
const UNDISTURBED_MIN: f64 = 0.95;
/// … and the sample is taken once more.
pub const TRIES: usize = 2;
/// … unless it took so long.
pub const RETAKEN_MAX: Duration = Duration::from_millis(100);
/// More disturbed samples than this share are worth a remark.
const DISTURBED_SHARE_MAX: f64 = 0.2;

/// One sample of a hammered target.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Of an operation, as a thread sees it.
    pub ns_per_op: f64,
    /// Of all threads together.
    pub ops_per_sec: f64,
}

impl Sample {
    /// All threads count from the moment when the first one passed the gate: where there are more threads than CPUs,
    /// one that gets its first slice late has waited for it.
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

/// The workers and their words.
pub struct Arena {
    pool: Pool,
    words: Arc<Vec<Words>>,
    cpus: usize,
    samples: Cell<usize>,
    disturbed: Cell<usize>,
}

impl Arena {
    /// For up to `threads` workers.
    pub fn new(lab: &Lab<'_>, threads: usize) -> Result<Arena> {
        Ok(Arena {
            pool: Pool::new(threads, &lab.cpus)?,
            words: words(lab.settings, threads),
            cpus: lab.cpus.len(),
            samples: Cell::new(0),
            disturbed: Cell::new(0),
        })
    }

    /// Lets `threads` workers repeat the operation for `length`; once more where they were disturbed.
    pub fn sample(
        &self,
        subject: &Arc<dyn Subject>,
        threads: usize,
        operation: Operation,
        length: Duration,
    ) -> Result<Sample> {
        subject.make_ready();
        let mut tallies = Vec::new();
        let mut disturbed = true;
        for _ in 0..TRIES {
            tallies = self.hammer(subject, threads, operation, length)?;
            disturbed = threads <= self.cpus && is_disturbed(&tallies);
            if !disturbed {
                break;
            }
        }
        self.samples.update(|count| count + 1);
        self.disturbed.update(|count| count + usize::from(disturbed));
        Ok(Sample::of(&tallies))
    }

    fn hammer(
        &self,
        subject: &Arc<dyn Subject>,
        threads: usize,
        operation: Operation,
        length: Duration,
    ) -> Result<Vec<Tally>> {
        let gate = Gate::new(threads);
        let job = {
            let (subject, words, gate) = (subject.clone(), self.words.clone(), gate.clone());
            move |worker: usize| subject.hammer(operation, &words[worker], &gate)
        };
        let tallies = self.pool.run(threads, job, || gate.stop_after(length))?;
        let failed: u64 = tallies.iter().map(|tally| tally.failed).sum();
        ensure!(failed == 0, "{failed} operations of {operation:?} did not end as they must");
        Ok(tallies)
    }

    /// A remark for the reader where too many samples were disturbed.
    pub fn remark(&self) -> Option<String> {
        remark(self.disturbed.get(), self.samples.get())
    }

    /// Hammers with waits until the table keeps its size, and says which that is.
    pub fn settle(&self, subject: &Arc<dyn Subject>, threads: usize) -> Result<Option<usize>> {
        let start = Instant::now();
        let (mut size, mut since) = (subject.buckets(), start);
        while since.elapsed() < SETTLED && start.elapsed() < SETTLE_MAX && !interrupt::asked() {
            self.hammer(subject, threads, Operation::WaitDiffers, SETTLE_STEP)?;
            if subject.buckets() != size {
                (size, since) = (subject.buckets(), Instant::now());
            }
        }
        Ok(size)
    }

    /// Waits once on every worker, so that the table exists: nobody measures an empty domain.
    pub fn prime(&self, subject: &Arc<dyn Subject>, threads: usize) -> Result<()> {
        self.hammer(subject, threads, Operation::WaitDiffers, Duration::from_micros(200)).map(|_| ())
    }
}

/// Whether a thread had no CPU for a while.
pub fn is_disturbed(tallies: &[Tally]) -> bool {
    tallies.iter().any(|tally| had_no_cpu(tally.on_cpu, tally.end - tally.start))
}

/// Whether a thread had no CPU for more than a little of that time.
pub fn had_no_cpu(on_cpu: Duration, elapsed: Duration) -> bool {
    on_cpu.as_secs_f64() < UNDISTURBED_MIN * elapsed.as_secs_f64()
}

/// What the reader is told where too many samples were disturbed.
pub fn remark(disturbed: usize, samples: usize) -> Option<String> {
    let share = disturbed as f64 / samples.max(1) as f64;
    (share > DISTURBED_SHARE_MAX).then(|| {
        format!(
            "in {:.0} % of the samples the threads shared their CPUs with other work: take the figures as rough",
            100.0 * share
        )
    })
}

/// Each worker's own array.
pub fn words(settings: &Settings, threads: usize) -> Arc<Vec<Words>> {
    Arc::new((0..threads).map(|_| Words::new(settings.futexes, settings.stride_bytes)).collect())
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
        // One CPU, two threads in turn: 2 M operations in 20 ms, and each thread saw one in 10 ns and 20 ns.
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
