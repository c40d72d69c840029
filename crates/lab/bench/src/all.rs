//! `bench` without a workload: all that need nothing built first, each for less than its usual time.

use crate::flags::{self, Futexes, Perfs, Words};
use crate::settings::Buckets;
use crate::workload::{ALL, Job};
use crate::{Bench, Settings};
use clap::Args;
use clap::builder::TypedValueParser;
use lab_targets::{Name, timers};
use lab_values::{self as values, List};
use strum::VariantArray;

/// Why the kernel's global table is refused for more than one workload.
const GLOBAL_FOR_GOOD: &str = "--buckets '0' cannot be undone in the kernel; accepted: one workload, or a power of two";

/// The flags. Each applies to the workloads that have it.
#[derive(Clone, Args)]
pub struct All {
    /// Threads, a comma list [default: by the workload]
    #[arg(short, long, value_name = "LIST", value_parser = values::threads())]
    pub threads: Option<List<usize>>,
    #[command(flatten)]
    futexes: Futexes,
    // The help text has the names.
    #[arg(long, value_name = "LIST", value_parser = completed(), hide_possible_values = true, help = help_of_targets())]
    targets: Option<Targets>,
    #[command(flatten)]
    perfs: Perfs,
    /// Check the engine's bounds: run every workload at full length, and print each figure with its bound
    #[arg(long, hide = true, conflicts_with = "noise")]
    pub figures: bool,
}

/// `--targets` of a run of all workloads, in the given order.
#[derive(Clone, Debug, PartialEq)]
struct Targets {
    futex: List<Name>,
    timers: List<timers::Name>,
}

fn targets(text: &str) -> Result<Targets, String> {
    let futex = |part: &str| part.parse::<Name>().ok();
    let timers = |part: &str| part.parse::<timers::Name>().ok();
    let (all, of_timers) = (values::names(Name::VARIANTS), values::names(timers::Name::VARIANTS));
    let accepted = format!("{all}, or a comma list of these; for timers {of_timers}");
    let parts = values::list(text, &accepted, |part| {
        Some(part.to_string()).filter(|_| futex(part).is_some() || timers(part).is_some())
    })?;
    Ok(Targets {
        futex: List(parts.iter().filter_map(|part| futex(part)).collect()),
        timers: List(parts.iter().filter_map(|part| timers(part)).collect()),
    })
}

/// The parser of `--targets`, with the names that shells complete.
fn completed() -> impl TypedValueParser<Value = Targets> {
    let (futex, timers) =
        (Name::VARIANTS.iter().map(|name| name.text()), timers::Name::VARIANTS.iter().map(|name| name.text()));
    let kernel = Name::Kernel.text();
    values::completed(targets, futex.chain(timers.filter(|name| *name != kernel)).collect())
}

fn help_of_targets() -> String {
    let (all, of_timers) = (flags::help_of_targets(Name::VARIANTS), values::names(timers::Name::VARIANTS));
    format!("{all} (floor: hash and wake only); for timers {of_timers}")
}

impl All {
    /// The words of each thread.
    pub fn words(&self) -> Words {
        Words::array(&self.futexes)
    }

    /// The targets of `timers`, if any were given.
    pub fn timers(&self) -> Option<List<timers::Name>> {
        self.targets.as_ref().map(|targets| targets.timers.clone())
    }

    /// Whether the futexes are shared.
    pub fn is_shared(&self) -> bool {
        self.perfs.shared.shared
    }

    /// Checks the flags against each other. An error is one line for the user.
    pub fn check(&self) -> Result<Bench, String> {
        let futex = self.targets.as_ref().map(|targets| &targets.futex);
        // The other workloads would have no target.
        if futex.is_some_and(|targets| **targets == [Name::Floor]) {
            return Err("--targets 'floor' is for hash and wake; accepted: one of these workloads, or further targets"
                .to_string());
        }
        let settings: Settings = self.perfs.settings(futex)?;
        if settings.buckets == Buckets::Exactly(0) {
            return Err(GLOBAL_FOR_GOOD.to_string());
        }
        self.words().check(self.threads.as_ref())?;
        let parts = ALL.iter().flat_map(|entry| (entry.in_all)(self));
        let jobs = parts.map(|part| Job { settings: settings.clone(), part }).collect();
        Ok(Bench { jobs, is_all: true, figures: self.figures })
    }
}

/// End of the help of `bench`.
pub fn help() -> String {
    let text = "\
Without a workload, all but locks, schbench and neighbour run, each for less than its usual time, with a summary at
the end. Several workloads may be named before the flags, if each of them has these flags. `ufutex bench WORKLOAD
--help` has a workload's flags and the fields of its rows.
live, fixed, atomic and percpu are schemes of the engine: how an operation reaches its bucket while tables change. atomic
and percpu count users. They stand in for the tables of Linux 6.16 and since 6.17, whose resizes end by other rules:
docs/BENCHMARKS.md. global is the engine's table for shared words, used for private ones.
-r without --repeat sets the number of rounds; with --repeat it sets the length of a sample.";
    flags::help(
        text,
        "  ufutex bench                                  these workloads in about two minutes, with a summary
  ufutex bench hash wake                        two workloads
  ufutex bench hash -t 1,2 -b auto --json       rows for other programs
  ufutex bench timers --tests expire            the lateness of timers",
    )
}

/// Joins several workloads, each parsed with the same flags, into one run.
pub fn together(jobs: Vec<Job>) -> Result<Bench, String> {
    let names: Vec<_> = jobs.iter().map(|job| job.part.name()).collect();
    if let [_, _, ..] = names[..] {
        let is_alone = |name: &&&str| ALL.iter().any(|entry| entry.name == **name && entry.is_alone);
        if let Some(alone) = names.iter().find(is_alone) {
            let others = values::names(names.iter().filter(|other| *other != alone));
            return Err(format!("'{alone}' cannot be combined with {others}; accepted: '{alone}' alone"));
        }
        // A process that has chosen the kernel's global table keeps it, also in later workloads.
        if jobs.iter().any(|job| job.settings.buckets == Buckets::Exactly(0)) {
            return Err(GLOBAL_FOR_GOOD.to_string());
        }
    }
    Ok(Bench { jobs, is_all: false, figures: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_belong_to_their_workloads() {
        let both = targets("kernel, radix,ours").expect("targets");
        assert_eq!(*both.futex, [Name::Kernel]);
        assert_eq!(*both.timers, [timers::Name::Kernel, timers::Name::Radix, timers::Name::Ours]);
        assert!(targets("live,hash").is_err() && targets("").is_err());
        let sleeping = values::sleeping();
        assert!(values::some(Name::VARIANTS, "floor").is_ok() && values::some(&sleeping, "live,floor").is_err());
        assert!(values::some(Name::VARIANTS, "live,radix").is_err());
        assert!(values::some(timers::Name::VARIANTS, "ours,live").is_err());
    }
}
