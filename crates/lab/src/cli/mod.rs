//! The command line: its flags, which follow perf's, and the one-line errors.

mod advise;
mod bench;
mod compare;
mod locks;
mod manual;
mod mistake;
mod report;
mod run;
pub mod sim;
pub mod sim_more;
mod soak;
mod workloads;

use manual::{CompletionsArgs, ManArgs};

use crate::{EXIT_FAILURE, EXIT_USAGE, failed, measuring, watching};
use bench::BenchVerb;
use clap::{Arg, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use compare::CompareArgs;
use lab_bench::Child;
use lab_measure::interrupt;
use lab_run::Run;
use lab_soak::Verdict;
use lab_terminal::stderr;
use std::any::TypeId;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

/// A parsed command whose settings have been checked. It returns the exit status.
pub type Command = Box<dyn FnOnce() -> ExitCode>;

/// Why no command is run.
pub enum Refusal {
    /// `--help` or `--version`: text for stdout, exit status 0.
    Information(clap::builder::StyledStr),
    /// An error of one line: what is wrong, the value, what is accepted. Exit status 2.
    Mistake(String),
}

/// Parses the command line. Errors of clap are turned into one line.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Command, Refusal> {
    let mut arguments: Vec<OsString> = arguments.into_iter().collect();
    if let Some(run) = run_alone(&arguments) {
        return Ok(Box::new(move || lab_run::run::run(&run)));
    }
    let mut shape = whole();
    let name = arguments.get(1).and_then(|name| name.to_str()).unwrap_or_default().to_string();
    let named = workloads::take(&mut arguments, shape.find_subcommand(&name)).map_err(Refusal::Mistake)?;
    let of_workload = |workload: &String| {
        let mut arguments = arguments.clone();
        arguments.insert(2, workload.into());
        verb(&mut shape, arguments, &format!("{name} {workload}"))
    };
    let mut verbs = named.iter().map(of_workload).collect::<Result<Vec<_>, _>>()?;
    let command = match verbs.len() {
        0 => checked(verb(&mut shape, arguments, &name)?),
        1 => checked(verbs.remove(0)),
        _ => together(verbs, &named),
    };
    command.map_err(Refusal::Mistake)
}

/// Parses `ufutex run` without the other commands, whose flags take longer to build than the program takes to start.
/// `None` for another command, a mistake or `--help`: the caller then builds all commands, for the message.
fn run_alone(arguments: &[OsString]) -> Option<Run> {
    let run = arguments.get(1..).filter(|rest| rest.first().is_some_and(|verb| verb == "run"))?;
    let mut shape = run::RunArgs::augment_args(clap::Command::new("run"));
    let matches = shape.try_get_matches_from_mut(run).ok()?;
    run::RunArgs::from_arg_matches(&matches).ok()?.check().ok()
}

/// Parses a command line with at most one workload.
fn verb(shape: &mut clap::Command, arguments: Vec<OsString>, name: &str) -> Result<Verb, Refusal> {
    let matches = shape.try_get_matches_from_mut(arguments);
    let top = matches.and_then(|matches| Top::from_arg_matches(&matches));
    top.map(|top| top.verb).map_err(|error| mistake::refusal(&error, shape, name))
}

/// Checks the flags against each other. An error is one line for the user.
fn checked(verb: Verb) -> Result<Command, String> {
    Ok(match verb {
        Verb::Bench(verb) => measuring(verb.check()?, lab_bench::run),
        Verb::Run(args) => {
            let run = args.check()?;
            Box::new(move || lab_run::run::run(&run))
        }
        Verb::Report(args) => measuring(args.check()?, lab_report::page::run),
        Verb::Compare(args) => Box::new(move || {
            lab_compare::run(&args.into()).unwrap_or_else(|line| {
                stderr::say(line);
                ExitCode::from(EXIT_USAGE)
            })
        }),
        Verb::Sim(verb) => match verb.own {
            None => measuring(verb.args.check()?, lab_sim::run),
            Some(OwnSim::Timers(args)) => measuring(args.check()?, lab_sim::timers::print),
            Some(OwnSim::Schbench(args)) => measuring(args.check()?, lab_sim::schbench::print),
            Some(OwnSim::Validate(args)) => measuring(args.into(), lab_sim::validate::run),
        },
        Verb::Soak(args) => watching(move || match lab_soak::run(&args.into()) {
            Ok(Verdict::Clean) => ExitCode::SUCCESS,
            Ok(Verdict::Interrupted) => ExitCode::from(interrupt::EXIT),
            Ok(Verdict::Broken) => ExitCode::from(EXIT_FAILURE),
            Err(error) => failed(&error),
        }),
        Verb::Advise(args) => watching(move || lab_run::advise::run(&args.into())),
        Verb::Locks(args) => {
            let locks = args.check()?;
            watching(move || lab_waits::run(&locks))
        }
        Verb::Completions(args) => measuring(args.shell, |shell| crate::manual::completions(*shell)),
        Verb::Man(args) => measuring(known_verb(args)?, |args| match &args.output {
            Some(directory) => crate::manual::pages(directory),
            None => crate::manual::page(&args.name()),
        }),
        Verb::Child(child) => measuring(child, Child::run),
    })
}

/// Joins several workloads, each parsed with the same flags, into one command.
fn together(verbs: Vec<Verb>, named: &[String]) -> Result<Command, String> {
    let jobs = verbs.into_iter().map(|verb| match verb {
        Verb::Bench(verb) => verb.check().map(|bench| bench.jobs),
        _ => Err(format!("'{}' cannot be combined with another workload; accepted: one workload", named[1])),
    });
    let jobs = jobs.collect::<Result<Vec<_>, _>>()?;
    Ok(measuring(lab_bench::all::together(jobs.into_iter().flatten().collect())?, lab_bench::run))
}

/// The command line. A flag's value may be a negative number, so that a mistake in it is not taken for another flag. A file's
/// name may not: it is rather a flag whose value was forgotten.
fn whole() -> clap::Command {
    fn with_negative_values(command: clap::Command) -> clap::Command {
        let is_path = |arg: &Arg| arg.get_value_parser().type_id() == TypeId::of::<PathBuf>();
        let is_flag = |arg: &Arg| !arg.is_positional() && arg.get_action().takes_values() && !is_path(arg);
        let arg = |arg: Arg| if is_flag(&arg) { arg.allow_negative_numbers(true) } else { arg };
        command.mut_args(arg).mut_subcommands(with_negative_values)
    }
    with_negative_values(Top::command())
}

/// The command line without the hidden commands, which this program runs as its children.
pub fn shape() -> clap::Command {
    let whole = whole();
    let shown = whole.get_subcommands().filter(|verb| !verb.is_hide_set()).cloned();
    clap::Command::new("ufutex")
        .version(env!("CARGO_PKG_VERSION"))
        .about(whole.get_about().cloned().unwrap_or_default())
        .after_long_help(manual::TOP)
        .subcommand_required(true)
        .subcommands(shown)
}

fn known_verb(args: ManArgs) -> Result<ManArgs, String> {
    if crate::manual::find(&args.name()).is_some() {
        return Ok(args);
    }
    let (verb, mut pages) = (args.verb.join(" "), crate::manual::names());
    pages.retain(|page| !page.is_empty());
    Err(format!("'{}' has no page; accepted: {}", verb.escape_debug(), pages.join(", ")))
}

#[derive(Parser)]
#[command(
    name = "ufutex",
    version,
    about = "Linux's futexes as a library: run programs on it, measure it beside the kernel",
    after_long_help = manual::TOP,
    max_term_width = 110
)]
struct Top {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Measure every scheme, the kernel's futex and parking_lot_core
    #[command(after_long_help = lab_bench::all::help())]
    Bench(BenchVerb),
    /// Run a program with its futexes on the engine
    #[command(long_about = run::ABOUT, after_long_help = run::MORE)]
    Run(Box<run::RunArgs>),
    /// Measure this machine, and write a page with published and modelled figures beside its own
    #[command(after_long_help = report::MORE)]
    Report(report::ReportArgs),
    /// Compare two files of rows, and report changes larger than the noise
    #[command(after_long_help = compare::MORE)]
    Compare(CompareArgs),
    /// Run the engine on the virtual cores of a modelled machine
    #[command(after_long_help = sim::ROWS)]
    Sim(SimVerb),
    /// Use everything at once for minutes, and account for every wake and expiry
    #[command(long_about = soak::ABOUT, after_long_help = soak::MORE)]
    Soak(soak::SoakArgs),
    /// Watch a program's futexes, and recommend settings for it
    #[command(long_about = advise::ABOUT, after_long_help = advise::MORE)]
    Advise(advise::AdviseArgs),
    /// Say which locks cost a program time, which threads hold them and which wait, from where
    #[command(long_about = locks::ABOUT, after_long_help = locks::MORE)]
    Locks(locks::LocksArgs),
    /// Print shell completions
    #[command(after_long_help = manual::COMPLETIONS)]
    Completions(CompletionsArgs),
    /// Print a manual page
    #[command(after_long_help = manual::MAN)]
    Man(ManArgs),
    #[command(flatten)]
    Child(Child),
}

/// A workload of `sim`, or one of the workloads with their own flags.
#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    disable_help_subcommand = true,
    subcommand_value_name = "WORKLOAD"
)]
struct SimVerb {
    #[command(flatten)]
    args: Box<sim::SimArgs>,
    #[command(subcommand)]
    own: Option<OwnSim>,
}

#[derive(Subcommand)]
enum OwnSim {
    /// The engine's timer table and other designs of one
    #[command(after_long_help = sim_more::TIMERS)]
    Timers(Box<sim_more::TimersArgs>),
    /// The pattern of schbench's threads
    #[command(after_long_help = sim_more::SCHBENCH)]
    Schbench(Box<sim_more::SchbenchArgs>),
    /// Compare published figures with our stand-ins' and the model's; exit 1 if the model misses
    #[command(alias = "seeds", after_long_help = sim_more::VALIDATE)]
    Validate(sim_more::ValidateArgs),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn only_a_run_without_mistakes_is_parsed_without_the_other_commands() {
        for line in ["run true", "run -- true", "run --trap --stats -o a env -i true", "run --slots 8 --immutable x"] {
            let line = words(&format!("ufutex {line}"));
            let alone = run_alone(&line).expect("no mistake");
            let Ok(Verb::Run(whole)) = verb(&mut super::whole(), line, "run") else { panic!("another command") };
            let whole = whole.check().expect("no mistake");
            assert_eq!((alone.settings, alone.output, alone.command), (whole.settings, whole.output, whole.command));
        }
        for line in
            ["run", "run --help", "run --slots 3 x", "run --immutable x", "run --flag x", "bench hash", "--help"]
        {
            assert!(run_alone(&words(&format!("ufutex {line}"))).is_none(), "{line}");
        }
        assert!(run_alone(&[]).is_none());
    }
}
