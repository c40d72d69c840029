//! `bench growth`.

use super::common::{self, Own};
use super::{Asked, One};
use crate::cli::values::{self, List};
use clap::Args;
use lab_bench::growth::Growth;

/// The flags.
#[derive(Args)]
pub struct GrowthArgs {
    /// Threads that park one after another, a comma list [default: 43,171,683,1366]
    #[arg(short, long, value_name = "LIST", value_parser = values::threads, allow_negative_numbers = true)]
    threads: Option<List<usize>>,
    #[command(flatten)]
    own: Own,
}

/// End of the help.
pub fn more() -> String {
    let rows = format!(
        "{}
  first_wait_us  {{p50, p99, max}} of the time from the call until the thread sleeps; each the median over the repeats
  ratio_parking_lot   this row's max divided by parking_lot's: the median over the repeats",
        super::HEAD
    );
    common::more(&rows, "  ufutex bench growth -t 1366 --targets live,parking_lot")
}

impl GrowthArgs {
    /// Checks the flags against each other. An error is one line for the user.
    pub fn check(self) -> Result<One, String> {
        self.own.one(Asked::Growth(Growth { threads: self.threads.map(|List(threads)| threads) }), false)
    }
}
