//! `ufutex bench`: a subcommand for each workload, and `bench` alone for all of them.

use clap::{ArgMatches, Args, Command, FromArgMatches, Subcommand};
use lab_bench::Bench;
use lab_bench::all::{self, All};
use lab_bench::workload::{ALL, Job};

/// One workload, or all.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true, subcommand_value_name = "WORKLOAD")]
pub struct BenchVerb {
    #[command(flatten)]
    all: Box<All>,
    #[command(subcommand)]
    workload: Option<OneJob>,
}

/// A named workload, or the mistake in its flags.
struct OneJob(Result<Job, String>);

impl Subcommand for OneJob {
    fn augment_subcommands(command: Command) -> Command {
        command.subcommands(ALL.iter().map(|entry| (entry.command)()))
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        Self::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        ALL.iter().any(|entry| entry.name == name)
    }
}

impl FromArgMatches for OneJob {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let entry = |name: &str| ALL.iter().find(|entry| entry.name == name);
        let named = matches.subcommand().and_then(|(name, flags)| Some((entry(name)?, flags)));
        let (entry, flags) = named.ok_or_else(|| clap::Error::new(clap::error::ErrorKind::MissingSubcommand))?;
        (entry.job)(flags).map(OneJob)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl BenchVerb {
    /// Checks the flags against each other. An error is one line for the user.
    pub fn check(self) -> Result<Bench, String> {
        match self.workload {
            None => self.all.check(),
            Some(OneJob(job)) => all::together(vec![job?]),
        }
    }
}
