//! `bench wake-parallel`.

use super::common::{self, Perfs, Sleeping};
use super::{Asked, One};
use crate::cli::values::{self, List};
use clap::Args;
use lab_bench::wake_parallel::{THREADS, WakeParallel};
use lab_measure::machine;

/// The flags.
#[derive(Args)]
pub struct WakeParallelArgs {
    /// Threads that sleep, a comma list [default: 1000]
    #[arg(short, long, value_name = "LIST", value_parser = values::threads, allow_negative_numbers = true)]
    threads: Option<List<usize>>,
    /// Threads that wake, each an equal share of the sleepers [default: 2]
    #[arg(short = 'w', long, value_name = "N", value_parser = values::nwakers, allow_negative_numbers = true)]
    nwakers: Option<usize>,
    #[command(flatten)]
    sleeping: Sleeping,
    #[command(flatten)]
    perfs: Perfs,
}

/// End of the help.
pub fn more() -> String {
    let rows = format!(
        "{}
  nwakers        threads that wake
  ns_per_op      {{p10, median, p90}} of each waiter woken, as one waker sees it
  ratio_kernel, ratio_parking_lot   this row's ns_per_op divided by theirs: the median over the rounds",
        super::HEAD
    );
    common::more(&rows, "  ufutex bench wake-parallel -t 128 -w 2")
}

impl WakeParallelArgs {
    /// Checks the flags against each other. An error is one line for the user.
    pub fn check(self) -> Result<One, String> {
        let perf = self.perfs.perf(&self.threads)?;
        let threads = self.threads.map(|List(threads)| threads);
        if let Some(nwakers) = self.nwakers {
            let by_perf = [machine::allowed_cpus().len()];
            let default = if perf.is_some() { &by_perf[..] } else { &THREADS };
            refuse_uneven_shares(nwakers, threads.as_deref().unwrap_or(default))?;
        }
        self.perfs.one(self.sleeping.targets, Asked::WakeParallel(WakeParallel { threads, nwakers: self.nwakers }))
    }
}

/// perf's rule: each waker wakes the same number of threads.
fn refuse_uneven_shares(nwakers: usize, threads: &[usize]) -> Result<(), String> {
    match threads.iter().find(|threads| nwakers < **threads && **threads % nwakers != 0) {
        Some(threads) => {
            Err(format!("--nwakers '{nwakers}' does not divide {threads} threads; accepted: a divisor of {threads}"))
        }
        None => Ok(()),
    }
}
