//! `bench requeue`.

use super::common::{self, Perfs, Sleeping};
use super::{Asked, One};
use crate::cli::values::{self, List};
use clap::Args;
use lab_bench::requeue::{AtOnce, Requeue};

/// The flags.
#[derive(Args)]
pub struct RequeueArgs {
    /// Threads that sleep, a comma list [default: 1000]
    #[arg(short, long, value_name = "LIST", value_parser = values::threads, allow_negative_numbers = true)]
    threads: Option<List<usize>>,
    /// Waiters that one call requeues [default: 1, and all]
    #[arg(short = 'q', long, value_name = "N", value_parser = values::nrequeue, allow_negative_numbers = true,
        conflicts_with = "broadcast")]
    nrequeue: Option<usize>,
    /// Requeue all waiters in one call
    #[arg(short = 'B', long)]
    broadcast: bool,
    /// Requeue to a lock with priority inheritance
    #[arg(short, long)]
    pi: bool,
    #[command(flatten)]
    sleeping: Sleeping,
    #[command(flatten)]
    perfs: Perfs,
}

/// End of the help.
pub fn more() -> String {
    let rows = format!(
        "{}
  nrequeue       waiters that a call requeues
  pi             whether they are requeued to a lock with priority inheritance
  ns_per_op      {{p10, median, p90}} of each waiter requeued; only the calls are timed
  ratio_kernel, ratio_parking_lot   this row's ns_per_op divided by theirs: the median over the rounds",
        super::HEAD
    );
    common::more(&rows, "  ufutex bench requeue -t 1000 -q 1 -p")
}

impl RequeueArgs {
    /// Checks the flags against each other. An error is one line for the user.
    pub fn check(self) -> Result<One, String> {
        self.perfs.perf(&self.threads)?;
        let at_once = self.broadcast.then_some(AtOnce::All).or(self.nrequeue.map(AtOnce::Some));
        let threads = self.threads.map(|List(threads)| threads);
        self.perfs.one(self.sleeping.targets, Asked::Requeue(Requeue { threads, at_once, pi: self.pi }))
    }
}
