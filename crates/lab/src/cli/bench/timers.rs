//! `bench timers`.

use super::common::{self, Common, Output};
use super::{Asked, One};
use crate::cli::values::{self, List};
use clap::Args;
use lab_bench::timers::Timers;
use lab_targets::timers::{Name, Test};

/// Largest number of timers at a time: they take two gigabytes.
const TIMERS_MAX: usize = 1 << 24;

/// The flags.
#[derive(Args)]
pub struct TimersArgs {
    /// Timers of each thread (create-delete: loops), a comma list [default: create-getoverrun 20000,100000;
    /// the other tests 100000]
    #[arg(short = 'n', long, visible_alias = "timers", value_name = "LIST", value_parser = values::number,
        allow_negative_numbers = true)]
    number: Option<List<usize>>,
    /// Threads of each process, a comma list [default: 1, and 2 with 20000 timers]
    #[arg(short, long, value_name = "LIST", value_parser = values::threads, allow_negative_numbers = true)]
    threads: Option<List<usize>>,
    /// Processes, a comma list [default: 1]
    #[arg(short, long, value_name = "LIST", value_parser = values::processes, allow_negative_numbers = true)]
    processes: Option<List<usize>>,
    /// Tests, a comma list [default: all]: create-getoverrun, create-delete, settime, expire
    #[arg(long, value_name = "LIST", value_parser = values::tests)]
    tests: Option<List<Test>>,
    /// Distance between IDs, which the caller then chooses [default: one case of 2048 timers, 512 apart]
    #[arg(long, value_name = "STRIDE", value_parser = values::sparse, allow_negative_numbers = true)]
    sparse: Option<usize>,
    /// Targets, a comma list [default: all]: ours, global-lock, precheck, scaled, radix, kernel
    #[arg(long, value_name = "LIST", value_parser = values::timer_targets)]
    targets: Option<List<Name>>,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    output: Output,
}

/// End of the help.
pub fn more() -> String {
    let rows = "\
Rows of --json, one object per line:
  workload, target, repeat (rounds)
  test           create-getoverrun: each thread creates its timers, reads each one's overrun, deletes them;
                 create-delete: a loop; settime: armed timers are set again in random order; expire: timers that are
                 due one after another within a second
  timers         of each thread; of create-delete: loops
  threads        of each process; processes
  sparse         distance between two IDs, if the caller chooses them
  create_ns, getoverrun_ns, delete_ns, settime_ns, create_delete_ns (both together)   of one timer, as a thread sees it;
                 CPU time if there is one thread
  bytes_per_timer   of everything; table_bytes: of the tables without the timers
  lateness_us    expire, only of ours: {p50, p99, max} of the worst round; lost: timers that were not delivered
  cpus_apart_ns, cpus_distance   with two threads or more, as in the other workloads
A sample in which a thread had its CPU for less than 95 % of the time is taken once more.";
    common::more(rows, "  ufutex bench timers --tests expire            the lateness of timers")
}

impl TimersArgs {
    /// Checks the flags against each other. An error is one line for the user.
    pub fn check(self) -> Result<One, String> {
        let default = Timers::default();
        let tests = match (self.tests, self.sparse) {
            (Some(List(tests)), Some(stride)) => match tests.iter().find(|test| **test != Test::CreateGetoverrun) {
                Some(test) => {
                    return Err(format!(
                        "--sparse '{stride}' is not accepted with '{test}'; accepted: --tests create-getoverrun"
                    ));
                }
                None => tests,
            },
            (Some(List(tests)), None) => tests,
            (None, Some(_)) => vec![Test::CreateGetoverrun],
            (None, None) => default.tests,
        };
        let asked = Timers {
            targets: self.targets.map_or(default.targets, |List(targets)| targets),
            tests,
            number: self.number.map(|List(number)| number),
            threads: self.threads.map(|List(threads)| threads),
            processes: self.processes.map(|List(processes)| processes),
            sparse: self.sparse,
        };
        refuse_too_many(&asked)?;
        let settings = self.common.settings(self.output.format);
        Ok(One { settings, asked: Asked::Timers(asked), perf: None, mlockall: self.common.mlockall })
    }
}

/// Limits the timers, which exist at the same time, and their IDs, which have 31 bits.
fn refuse_too_many(asked: &Timers) -> Result<(), String> {
    if asked.number.is_none() || asked.tests == [Test::CreateDelete] {
        return Ok(());
    }
    let most = |list: &Option<Vec<usize>>| list.iter().flatten().max().copied().unwrap_or(1);
    let timers = most(&asked.number);
    let process = timers.saturating_mul(most(&asked.threads));
    let all = process.saturating_mul(most(&asked.processes));
    if all > TIMERS_MAX {
        return Err(format!(
            "--number '{timers}' is too large: {all} timers in all; accepted: up to {TIMERS_MAX} in all"
        ));
    }
    match asked.sparse {
        Some(stride) if (process - 1).saturating_mul(stride) > i32::MAX as usize => Err(format!(
            "--sparse '{stride}' is too large: the IDs of {process} timers exceed 31 bits; accepted: up to {}",
            i32::MAX as usize / (process - 1)
        )),
        _ => Ok(()),
    }
}
