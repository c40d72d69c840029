//! `bench wake`.

use super::common::{self, Perfs, Words};
use super::{Asked, One};
use crate::cli::values::{self, List};
use clap::Args;
use lab_bench::wake_many::WakeMany;
use lab_targets::Name;

/// The flags.
#[derive(Args)]
pub struct WakeArgs {
    /// Threads, a comma list [default: 1,2; with -w 1000]
    #[arg(short, long, value_name = "LIST", value_parser = values::threads, allow_negative_numbers = true)]
    threads: Option<List<usize>>,
    #[command(flatten)]
    words: Words,
    /// Wake N sleeping threads in a call, as perf's wake does [perf's default: 1]
    #[arg(short = 'w', long, value_name = "N", value_parser = values::nwakers, allow_negative_numbers = true)]
    nwakes: Option<usize>,
    // The help text has the names.
    #[arg(long, value_name = "LIST", value_parser = values::targets, help = values::help_of_targets(values::ALL_TARGETS))]
    targets: Option<List<Name>>,
    #[command(flatten)]
    perfs: Perfs,
}

/// End of the help.
pub fn more() -> String {
    let rows = format!(
        "{}
  stride         distance between two words in bytes
  ns_per_op      {{p10, median, p90}} as one thread sees it; ops_per_sec of all threads
  ratio_kernel, ratio_parking_lot   this row's ns_per_op divided by theirs: the median over the rounds
  with -w        nwakes, and ns_per_op of each waiter woken; neither stride nor ops_per_sec
A sample in which a thread had its CPU for less than 95 % of the time is taken once more.",
        super::HEAD
    );
    common::more(&rows, "  ufutex bench wake -w 1 -t 100                 threads sleep, and one call wakes one of them")
}

impl WakeArgs {
    /// Checks the flags against each other. An error is one line for the user.
    pub fn check(self) -> Result<One, String> {
        let perf = self.perfs.perf(&self.threads)?;
        let sleep = self.nwakes.is_some() || perf.is_some();
        if sleep && self.targets.as_ref().is_some_and(|List(targets)| targets.contains(&Name::Floor)) {
            return Err(
                "--targets 'floor' is not accepted where threads sleep; accepted: the other targets".to_string()
            );
        }
        let asked = if sleep {
            let threads = self.threads.map(|List(threads)| threads);
            Asked::WakeMany(WakeMany { threads, nwakes: self.nwakes.unwrap_or(1) })
        } else {
            Asked::Wake(self.words.hammer(self.threads)?)
        };
        self.perfs.one(self.targets, asked)
    }
}
