//! `bench lock-pi`.

use super::common::{self, Perfs, Sleeping};
use super::{Asked, One};
use crate::cli::values::{self, List};
use clap::Args;
use lab_bench::lock_pi::LockPi;
use std::time::Duration;

/// The flags.
#[derive(Args)]
pub struct LockPiArgs {
    /// Threads, a comma list [default: 1,2]
    #[arg(short, long, value_name = "LIST", value_parser = values::threads, allow_negative_numbers = true)]
    threads: Option<List<usize>>,
    /// A lock for each thread instead of one for all
    #[arg(short = 'M', long)]
    multi: bool,
    /// Microseconds to sleep while holding the lock [default: 0; with --format perf 1, as in perf]
    #[arg(long, value_name = "US", value_parser = values::hold, allow_negative_numbers = true)]
    hold: Option<u64>,
    #[command(flatten)]
    sleeping: Sleeping,
    #[command(flatten)]
    perfs: Perfs,
}

/// End of the help.
pub fn more() -> String {
    let rows = format!(
        "{}
  multi          whether each thread has its own lock; futexes is the number of locks
  hold_us        how long a thread sleeps while it holds the lock
  ns_per_op      {{p10, median, p90}} of one lock and unlock as a thread sees it; ops_per_sec of all threads
  ratio_kernel   this row's ns_per_op divided by the kernel's: the median over the rounds",
        super::HEAD
    );
    common::more(&rows, "  ufutex bench lock-pi -t 1,2 --targets live,kernel")
}

impl LockPiArgs {
    /// Checks the flags against each other. An error is one line for the user.
    pub fn check(self) -> Result<One, String> {
        self.perfs.perf(&self.threads)?;
        let (threads, hold) = (self.threads.map(|List(threads)| threads), self.hold.map(Duration::from_micros));
        self.perfs.one(self.sleeping.targets, Asked::LockPi(LockPi { threads, multi: self.multi, hold }))
    }
}
