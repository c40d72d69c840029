//! `hash`: waits on a word that differs.

use crate::all::All;
use crate::flags::{Perfs, Targets, Words, help_of_futexes};
use crate::hammer::{self, Row};
use crate::settings::Settings;
use crate::summary::Line;
use crate::workload::{Workload, plain};
use crate::{Lab, sizes};
use anyhow::Result;
use clap::Args;
use lab_targets::Operation;
use lab_values::{self as values, List};

/// Wait on a word that differs: perf's `futex hash`
#[derive(Clone, Args)]
pub struct Hash {
    /// Threads, a comma list [default: 1,2]
    #[arg(short, long, value_name = "LIST", value_parser = values::threads())]
    pub threads: Option<List<usize>>,
    #[command(flatten)]
    pub words: Words,
    #[command(flatten)]
    targets: Targets,
    #[command(flatten)]
    pub perfs: Perfs,
    /// The second part of `hash` in a run of all workloads: `live` at many sizes.
    #[arg(skip)]
    sizes: bool,
}

impl Workload for Hash {
    const NAME: &'static str = "hash";
    type Row = Row;

    fn help() -> String {
        help_of_futexes(
            "\
  early_return   whether the wait may compare the word before it locks the bucket
  stride         distance between two words in bytes
  ns_per_op      {p10, median, p90} as one thread sees it; ops_per_sec of all threads
  ratio_kernel, ratio_parking_lot   this row's ns_per_op divided by theirs: the median over the rounds
  section        of some rows. sizes (in a run of all workloads): `live` at fixed sizes and under its load policy,
                 with share_of_best, its ops_per_sec divided by the best fixed size's
A sample in which a thread had its CPU for less than 95 % of the time is taken once more.",
            "  ufutex bench hash -t 1,2 -b auto --json       rows for other programs",
        )
    }

    fn check(&mut self) -> Result<Settings, String> {
        self.words.check(self.threads.as_ref())?;
        self.perfs.settings(self.targets.targets.as_ref())
    }

    fn in_all(all: &All) -> Vec<Self> {
        let hash = Hash { threads: all.threads.clone(), words: all.words(), ..plain() };
        let sizes = (!all.is_shared()).then(|| Hash { sizes: true, ..hash.clone() });
        [hash].into_iter().chain(sizes).collect()
    }

    fn title(&self) -> &'static str {
        if self.sizes { "hash: the load policy from a new table, and fixed sizes" } else { Self::NAME }
    }

    fn run(&self, lab: &mut Lab<'_>, notes: &mut Vec<String>) -> Result<Vec<Row>> {
        match self.sizes {
            true => sizes::run(lab, &self.words, notes),
            false => hammer::run(lab, Operation::WaitDiffers, &self.threads, &self.words, notes),
        }
    }

    fn text(&self, rows: &[Row]) -> String {
        if self.sizes { sizes::text(rows) } else { hammer::text(rows) }
    }

    fn line(&self, rows: &[Row]) -> Option<Line> {
        (!self.sizes).then(|| Line::first("a wait that differs, ns", rows, |row| row.head.threads)).flatten()
    }
}
