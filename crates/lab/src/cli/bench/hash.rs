//! `bench hash`.

use super::common::{self, Perfs, Words};
use super::{Asked, One};
use crate::cli::values::{self, List};
use clap::Args;
use lab_bench::hammer::Hammer;
use lab_bench::perf::FirstLine;
use lab_bench::settings::{Buckets, Settings};
use lab_bench::sweep::Sweep;
use lab_targets::Name;

/// The flags.
#[derive(Args)]
pub struct HashArgs {
    /// Threads, a comma list [default: 1,2; with --sweep 1,2,4,8,16]
    #[arg(short, long, value_name = "LIST", value_parser = values::threads, allow_negative_numbers = true)]
    threads: Option<List<usize>>,
    #[command(flatten)]
    words: Words,
    /// Measure by threads and buckets, and by processes and buckets; -b may be a comma list [default: the
    /// global table and 4 to 256 buckets, with processes 4 to 2048]
    #[arg(long)]
    sweep: bool,
    /// With --sweep: processes of the second table [default: one on each node, or 2]
    #[arg(short, long, value_name = "N", value_parser = values::processes, allow_negative_numbers = true)]
    processes: Option<List<usize>>,
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
  early_return   whether the wait may compare the word before it locks the bucket
  stride         distance between two words in bytes
  ns_per_op      {{p10, median, p90}} as one thread sees it; ops_per_sec of all threads
  ratio_kernel, ratio_parking_lot   this row's ns_per_op divided by theirs: the median over the rounds
  section        of some rows. sizes (in a run of all workloads): `live` at fixed sizes and under its load policy,
                 with share_of_best, its ops_per_sec divided by the best fixed size's. sweep: with slots (as
                 requested; 0: the global table) and, in the second table, processes (each with `threads`)
A sample in which a thread had its CPU for less than 95 % of the time is taken once more.",
        super::HEAD
    );
    common::more(
        &rows,
        "  ufutex bench hash -t 1,2 -b auto --json       rows for other programs
  ufutex bench hash -t 4 --format perf          print as perf bench futex hash does
  ufutex bench hash --sweep                     by threads, processes and buckets",
    )
}

impl HashArgs {
    /// Checks the flags against each other. An error is one line for the user.
    pub fn check(self) -> Result<One, String> {
        if self.sweep {
            return self.swept();
        }
        if self.processes.is_some() {
            return Err("--processes is not accepted without --sweep; accepted: --sweep --processes N".to_string());
        }
        self.perfs.perf(&self.threads)?;
        self.perfs.one(self.targets, Asked::Hash(self.words.hammer(self.threads)?))
    }

    fn swept(self) -> Result<One, String> {
        let sizes = self.perfs.tables.sizes();
        let refusal = if sizes.contains(&Buckets::Auto) {
            "--buckets 'auto' is not accepted with --sweep; accepted: powers of two, and 0"
        } else if self.perfs.output.perf().is_some() {
            "--sweep is not accepted with perf's format; accepted: --format table or json"
        } else if self.perfs.shared.shared {
            "--shared is not accepted with --sweep; accepted: one of the two"
        } else if self.perfs.immutable.immutable {
            "--immutable is not accepted with --sweep; accepted: one of the two"
        } else if self.targets.as_ref().is_some_and(|List(targets)| targets.contains(&Name::Floor)) {
            "--targets 'floor' is not accepted with --sweep; accepted: the other targets"
        } else {
            ""
        };
        if !refusal.is_empty() {
            return Err(refusal.to_string());
        }
        let processes = match self.processes {
            Some(List(processes)) if processes.len() > 1 => {
                return Err(format!(
                    "--processes '{}' is a second value; accepted: one value with --sweep",
                    processes[1]
                ));
            }
            processes => processes.map(|List(processes)| processes[0]),
        };
        let exact = |size: &Buckets| if let Buckets::Exactly(slots) = size { Some(*slots) } else { None };
        let slots = sizes.iter().filter_map(exact).collect();
        let layout = self.perfs.tables.layout;
        let targets = common::names(self.targets, None, layout)?;
        let settings = Settings { layout, targets, ..self.perfs.common.settings(self.perfs.output.format) };
        let hammer: Hammer = self.words.hammer(self.threads)?;
        let asked = Asked::Sweep(Sweep { hammer, slots, processes });
        Ok(One { settings, asked, perf: None::<FirstLine>, mlockall: self.perfs.common.mlockall })
    }
}
