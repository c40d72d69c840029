//! One process that hammers the kernel's futexes for one sample.

use crate::children;
use crate::workers::Sample;
use anyhow::Result;
use clap::Args;
use lab_measure::clock;
use lab_measure::pool::{Gate, Pool};
use lab_targets::Policy;
use lab_targets::{Layout, Name, Operation, Shape, Words};
use lab_terminal::stdout;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// Parameters of one child process.
#[derive(Clone, Args)]
pub struct Child {
    /// Number of threads of this process.
    #[arg(long)]
    threads: usize,
    /// Number of words of each thread.
    #[arg(long)]
    futexes: usize,
    /// Distance between two words, in bytes.
    #[arg(long)]
    stride: usize,
    /// Slots of the process's table. 0 means the global table.
    #[arg(long)]
    slots: usize,
    /// CPUs of the threads, in turn.
    #[arg(long, value_delimiter = ',')]
    cpus: Vec<usize>,
    /// Length of the sample.
    #[arg(long)]
    microseconds: u64,
}

/// The child's results.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Report {
    operations: u64,
    /// Sum of all threads' times.
    thread_ns: u64,
    /// Time of the slowest thread.
    longest_ns: u64,
}

impl Report {
    /// Combines the reports of all processes into one sample.
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

/// Runs in the child process.
pub fn run(args: &Child) -> Result<()> {
    let policy = Policy::Fixed(args.slots);
    let shape = Shape::new(Layout::Lean, policy);
    let pool = Pool::new(args.threads, &args.cpus)?;
    let subject = lab_targets::build(Name::Kernel, &shape)?;
    subject.make_ready();
    let words: Arc<Vec<Words>> = Arc::new((0..args.threads).map(|_| Words::new(args.futexes, args.stride)).collect());
    let start = children::ready()?;
    // This thread passes the gate with the workers, so that none begins before the start time.
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
    let report = if failed == 0 { Ok(report) } else { Err(format!("{failed} waits had a wrong result")) };
    stdout::print(&serde_json::to_string(&report)?)
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
