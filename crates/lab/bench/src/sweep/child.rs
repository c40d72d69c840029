//! One process on the kernel's futexes, for one sample.

use crate::arena::Sample;
use crate::children;
use anyhow::Result;
use lab_measure::clock;
use lab_measure::pool::{Gate, Pool};
use lab_targets::Policy;
use lab_targets::{Layout, Name, Operation, Shape, Words};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// What one process on the kernel's futexes needs to know.
#[derive(Clone)]
pub struct Child {
    /// Threads of this process.
    pub threads: usize,
    /// Words of each thread.
    pub futexes: usize,
    /// From a word to the next, in bytes.
    pub stride: usize,
    /// Slots of the process's table; 0: the global one.
    pub slots: usize,
    /// The CPUs of its threads, in turn.
    pub cpus: Vec<usize>,
    /// For how long it hammers.
    pub microseconds: u64,
}

/// What its threads have done.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Report {
    operations: u64,
    /// Of all threads.
    thread_ns: u64,
    /// Of the slowest.
    longest_ns: u64,
}

impl Report {
    /// Of all processes of a sample.
    pub fn together(reports: &[Report]) -> Sample {
        let sum = |of: fn(&Report) -> u64| reports.iter().map(of).sum::<u64>() as f64;
        let longest_ns = reports.iter().map(|report| report.longest_ns).max().unwrap_or(0);
        let operations = sum(|report| report.operations);
        Sample {
            ns_per_op: sum(|report| report.thread_ns) / operations,
            ops_per_sec: operations / Duration::from_nanos(longest_ns).as_secs_f64(),
        }
    }
}

/// A child's part.
pub fn run(args: &Child) -> Result<()> {
    let policy = Policy::Fixed(args.slots);
    let shape = Shape { layout: Layout::Lean, policy, shared: false, early_return: false };
    let pool = Pool::new(args.threads, &args.cpus)?;
    let subject = lab_targets::build(Name::Kernel, &shape)?;
    subject.make_ready();
    let words: Arc<Vec<Words>> = Arc::new((0..args.threads).map(|_| Words::new(args.futexes, args.stride)).collect());
    let start = children::ready()?;
    // This thread is one of those that pass: nobody begins before it is time.
    let gate = Gate::new(args.threads + 1);
    let job = {
        let gate = gate.clone();
        move |worker: usize| subject.hammer(Operation::WaitDiffers, &words[worker], &gate)
    };
    let tallies = pool.run(args.threads, job, || {
        std::thread::sleep(start.saturating_sub(clock::monotonic()));
        gate.pass_together();
        gate.stop_after(Duration::from_micros(args.microseconds));
    })?;
    let failed: u64 = tallies.iter().map(|tally| tally.failed).sum();
    let first = tallies.iter().map(|tally| tally.start).min();
    let times: Vec<u64> =
        tallies.iter().map(|tally| (tally.end - first.unwrap_or(tally.start)).as_nanos() as u64).collect();
    let report = Report {
        operations: tallies.iter().map(|tally| tally.operations).sum(),
        thread_ns: times.iter().sum(),
        longest_ns: times.iter().copied().max().unwrap_or(0),
    };
    let report = if failed == 0 { Ok(report) } else { Err(format!("{failed} waits did not end as they must")) };
    println!("{}", serde_json::to_string(&report)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_add_up_to_one_sample() {
        let one = Report { operations: 1000, thread_ns: 20_000, longest_ns: 10_000 };
        let two = Report { operations: 3000, thread_ns: 20_000, longest_ns: 10_000 };
        let sample = Report::together(&[one, two]);
        assert_eq!((sample.ns_per_op, sample.ops_per_sec.round()), (10.0, 4e8));
    }
}
