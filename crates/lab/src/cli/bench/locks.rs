//! `bench locks`.

use super::common::{self, Common, Output, Sleeping};
use super::{Asked, One};
use crate::cli::values::{self, List};
use clap::Args;
use lab_bench::locks::{Line, Locks};
use lab_bench::settings::Settings;
use lab_targets::Layout;

/// The flags.
#[derive(Args)]
pub struct LocksArgs {
    /// Threads, a comma list [default: 1,2,8 on one mutex, 64 on many-locks, 2 on lot]
    #[arg(short, long, value_name = "LIST", value_parser = values::threads, allow_negative_numbers = true)]
    threads: Option<List<usize>>,
    /// Writers of the reader-writer lock [default: 1; and 2]
    #[arg(long, value_name = "N", value_parser = values::lockers, allow_negative_numbers = true)]
    writers: Option<usize>,
    /// Readers of the reader-writer lock [default: 1; and 6]
    #[arg(long, value_name = "N", value_parser = values::lockers, allow_negative_numbers = true)]
    readers: Option<usize>,
    /// Mutexes of many-locks, or keys of lot [default: 16, 1024]
    #[arg(long, value_name = "N", value_parser = values::locks, allow_negative_numbers = true)]
    locks: Option<usize>,
    /// Steps of work while the lock is held
    #[arg(long, value_name = "N", default_value = "1", value_parser = values::work, allow_negative_numbers = true)]
    work_per_critical_section: usize,
    /// Steps of work between two locks
    #[arg(long, value_name = "N", default_value = "0", value_parser = values::work, allow_negative_numbers = true)]
    work_between_critical_sections: usize,
    /// The version of parking_lot
    #[arg(long, default_value = "0.13", value_parser = values::one_of::<Line>())]
    line: Line,
    #[command(flatten)]
    sleeping: Sleeping,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    output: Output,
}

/// End of the help.
pub fn more() -> String {
    let rows = format!(
        "{}
  target         parking_lot; live: parking_lot over this engine; std: the standard library (--targets kernel)
  case           mutex; rwlock with writers and readers; many-locks: on `futexes` mutexes; lot: the parking lot below
                 the locks, looking up keys without parked threads
  work_per_critical_section, work_between_critical_sections   steps of work
  ns_per_op      {{p10, median, p90}} of one lock and unlock as a thread sees it; ops_per_sec of all threads
  cpu_ns_per_op  the same in CPU time of all threads
  ratio_parking_lot, ratio_cpu_parking_lot   this row's times divided by parking_lot's: the median over the rounds
Cargo builds the programs when they are first run.",
        super::HEAD
    );
    common::more(&rows, "  ufutex bench locks -t 2 --line 0.12")
}

impl LocksArgs {
    /// Fills in the defaults. An error is one line for the user.
    pub fn check(self) -> Result<One, String> {
        let common = self.common.settings(self.output.format);
        let targets = common::names(self.sleeping.targets, None, Layout::Lean)?;
        let settings = Settings { targets, ..common };
        let asks_for_rwlock = self.writers.is_some() || self.readers.is_some();
        let asked = Asked::Locks(Locks {
            threads: self.threads.map(|List(threads)| threads),
            writers_readers: asks_for_rwlock.then(|| (self.writers.unwrap_or(1), self.readers.unwrap_or(1))),
            locks: self.locks,
            inside: self.work_per_critical_section,
            between: self.work_between_critical_sections,
            line: self.line,
        });
        Ok(One { settings, asked, perf: None, mlockall: self.common.mlockall })
    }
}
