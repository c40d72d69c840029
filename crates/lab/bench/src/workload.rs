//! What a workload is, and the list of all.
//!
//! A workload begins in one file. It has a struct of its flags, whose documentation is its help; the struct of a row, which
//! `--json` prints; and [`Workload`] for the flags: name, check, cases, samples, rows and table. Such a file and
//! its line in [`ALL`] are all that a new workload needs.
//!
//! Flags that several workloads have are groups in `flags`. The measuring loop reads a flag from its struct: there is no
//! second struct of settings. What all workloads share of their flags is in [`Settings`]. [`Lab::measure`] takes the
//! samples of all cases in turn, stores them for ratios, and makes the rows. `print` prints them. The command line is made
//! from the list, and so is a run of all workloads (`all`).

use crate::all::All;
use crate::print::Printer;
use crate::summary::Line;
use crate::{Lab, Settings};
use crate::{
    crowd, growth, hash, lock_pi, locks, neighbour, ping_pong, requeue, resize, schbench, timers, wake, wake_parallel,
    wasm,
};
use anyhow::Result;
use clap::{ArgMatches, Args, Command};
use serde::Serialize;

/// A workload, which is the struct of its flags.
pub trait Workload: Args + Clone + 'static {
    /// Its name on the command line and in the rows.
    const NAME: &'static str;
    /// Whether it runs alone and not with other workloads.
    const IS_ALONE: bool = false;
    /// One object of `--json`.
    type Row: Serialize;

    /// The end of its help: the fields of its rows, and examples.
    fn help() -> String;

    /// Checks the flags against each other, and returns the settings that all workloads have. An error is one line for
    /// the user.
    fn check(&mut self) -> Result<Settings, String>;

    /// Its parts in a run of all workloads. Without any it does not take part.
    fn in_all(_: &All) -> Vec<Self> {
        Vec::new()
    }

    /// The heading of its results.
    fn title(&self) -> &'static str {
        Self::NAME
    }

    /// Measures all targets. `notes` gets a line for each target or case that was left out, with the reason.
    fn run(&self, lab: &mut Lab<'_>, notes: &mut Vec<String>) -> Result<Vec<Self::Row>>;

    /// The table. There is at least one row.
    fn text(&self, rows: &[Self::Row]) -> String;

    /// The line of the summary.
    fn line(&self, _: &[Self::Row]) -> Option<Line> {
        None
    }
}

/// Every workload, in the order of the help and of a run of all.
pub const ALL: [Entry; 14] = [
    entry::<hash::Hash>(),
    entry::<wake::Wake>(),
    entry::<resize::Resize>(),
    entry::<growth::Growth>(),
    entry::<ping_pong::PingPong>(),
    entry::<requeue::Requeue>(),
    entry::<wake_parallel::WakeParallel>(),
    entry::<lock_pi::LockPi>(),
    entry::<crowd::Crowd>(),
    entry::<wasm::Wasm>(),
    entry::<locks::Locks>(),
    entry::<timers::Timers>(),
    entry::<schbench::Schbench>(),
    entry::<neighbour::Neighbour>(),
];

/// A workload in the list.
pub struct Entry {
    /// Its name.
    pub name: &'static str,
    /// [`Workload::IS_ALONE`].
    pub is_alone: bool,
    /// Its command line.
    pub command: fn() -> Command,
    /// Reads its flags, and checks them, whose error is the line of [`Workload::check`].
    pub job: fn(&ArgMatches) -> Result<Result<Job, String>, clap::Error>,
    /// [`Workload::in_all`].
    pub in_all: fn(&All) -> Vec<Box<dyn Part>>,
}

const fn entry<W: Workload>() -> Entry {
    Entry {
        name: W::NAME,
        is_alone: W::IS_ALONE,
        command: || W::augment_args(Command::new(W::NAME)).after_long_help(W::help()),
        job: |matches| {
            let mut workload = W::from_arg_matches(matches)?;
            Ok(workload.check().map(|settings| Job { settings, part: Box::new(workload) }))
        },
        in_all: |all| W::in_all(all).into_iter().map(|part| Box::new(part) as Box<dyn Part>).collect(),
    }
}

/// A workload without any flag.
pub fn plain<W: Args>() -> W {
    let command = W::augment_args(Command::new("").no_binary_name(true));
    W::from_arg_matches(&command.get_matches_from([""; 0])).expect("each flag has a default, or is optional")
}

/// One workload of a run.
pub struct Job {
    /// How to measure, for every kind of workload.
    pub settings: Settings,
    /// The workload, or a part of it.
    pub part: Box<dyn Part>,
}

/// A [`Workload`] behind dynamic dispatch.
pub trait Part {
    /// The workload's name.
    fn name(&self) -> &'static str;
    /// Measures and prints it.
    fn run(&self, lab: &mut Lab<'_>, printer: &mut Printer) -> Result<()>;
}

impl<W: Workload> Part for W {
    fn name(&self) -> &'static str {
        W::NAME
    }

    fn run(&self, lab: &mut Lab<'_>, printer: &mut Printer) -> Result<()> {
        let mut notes = Vec::new();
        let rows = Workload::run(self, lab, &mut notes)?;
        printer.print(lab, self, &rows, &notes)
    }
}
