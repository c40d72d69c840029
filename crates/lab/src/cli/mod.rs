//! The command line: perf's flags, and the one line that a mistake gets.

mod advise;
mod bench;
mod compare;
mod manual;
mod mistake;
mod neighbour;
mod report;
mod run;
pub mod schbench;
pub mod sim;
pub mod sim_more;
pub mod values;

pub use manual::{CompletionsArgs, ManArgs};

use bench::BenchArgs;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use compare::CompareArgs;
use lab_bench::neighbour::Neighbour;
use lab_bench::schbench::Schbench;
use lab_bench::{Settings, Workload, growth_child, sweep, timers};
use lab_report::compare::Compare;
use lab_report::page::Report;
use lab_run::{Advise, Run};
use lab_targets::Policy;
use lab_targets::timers::Test;
use lab_targets::{Layout, Name};
use std::ffi::OsString;

/// What the command line asks for, checked.
pub enum Command {
    /// `ufutex bench`.
    Bench(Box<Settings>),
    /// `ufutex bench schbench`.
    Schbench(Box<Schbench>),
    /// `ufutex bench neighbour`.
    Neighbour(Box<Neighbour>),
    /// `ufutex run`.
    Run(Box<Run>),
    /// `ufutex report`.
    Report(Report),
    /// `ufutex compare`.
    Compare(Compare),
    /// `ufutex sim`.
    Sim(Box<lab_sim::Settings>),
    /// `ufutex sim timers`.
    SimTimers(Box<lab_sim::timers::Settings>),
    /// `ufutex sim schbench`.
    SimSchbench(Box<lab_sim::schbench::Settings>),
    /// `ufutex sim validate`.
    SimValidate(lab_sim::validate::Settings),
    /// `ufutex advise`.
    Advise(Box<Advise>),
    /// `ufutex completions`.
    Completions(CompletionsArgs),
    /// `ufutex man`.
    Man(ManArgs),
    /// The hidden child of `bench growth`.
    GrowthChild(growth_child::Child),
    /// The hidden child of `bench timers`.
    TimersChild(timers::child::Child),
    /// The hidden child of `bench hash --sweep`.
    SweepChild(sweep::child::Child),
}

/// Why nothing is run.
pub enum Refusal {
    /// `--help` or `--version`: for stdout, exit 0.
    Information(clap::builder::StyledStr),
    /// One line: what is wrong, with what value, what is accepted. Exit 2.
    Mistake(String),
}

/// Reads the command line; a mistake is one line however clap words it.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Command, Refusal> {
    let mut shape = Top::command();
    let mut arguments: Vec<OsString> = arguments.into_iter().collect();
    let mut verb = arguments.get(1).and_then(|verb| verb.to_str()).unwrap_or_default().to_string();
    if verb == "bench" {
        tell_perfs_p(&mut arguments);
    }
    if let Some(own) = put_first(&mut arguments, shape.find_subcommand(&verb)) {
        verb += &format!(" {own}");
    }
    let top = shape
        .try_get_matches_from_mut(arguments)
        .and_then(|matches| Top::from_arg_matches(&matches))
        .map_err(|error| mistake::refusal(&error, &shape, &verb))?;
    match top.verb {
        Verb::Bench(BenchVerb { own: Some(Own::Schbench(args)), .. }) => {
            args.check().map(|schbench| Command::Schbench(Box::new(schbench))).map_err(Refusal::Mistake)
        }
        Verb::Bench(BenchVerb { own: Some(Own::Neighbour(args)), .. }) => {
            args.check().map(|neighbour| Command::Neighbour(Box::new(neighbour))).map_err(Refusal::Mistake)
        }
        Verb::Bench(BenchVerb { args, .. }) => {
            bench::settings(*args).map(|settings| Command::Bench(Box::new(settings))).map_err(Refusal::Mistake)
        }
        Verb::Run(args) => args.check().map(|run| Command::Run(Box::new(run))).map_err(Refusal::Mistake),
        Verb::Report(args) => args.check().map(Command::Report).map_err(Refusal::Mistake),
        Verb::Compare(args) => Ok(Command::Compare(args.into())),
        Verb::Sim(verb) => simulation(verb).map_err(Refusal::Mistake),
        Verb::Advise(args) => Ok(Command::Advise(Box::new(args.into()))),
        Verb::Completions(args) => Ok(Command::Completions(args)),
        Verb::Man(args) => known_verb(args).map(Command::Man).map_err(Refusal::Mistake),
        Verb::GrowthChild(args) => Ok(Command::GrowthChild(args.into())),
        Verb::TimersChild(args) => Ok(Command::TimersChild(args.into())),
        Verb::SweepChild(args) => Ok(Command::SweepChild(args.into())),
    }
}

fn simulation(verb: SimVerb) -> Result<Command, String> {
    Ok(match verb.own {
        None => Command::Sim(Box::new(verb.args.check()?)),
        Some(OwnSim::Timers(args)) => Command::SimTimers(Box::new(args.check()?)),
        Some(OwnSim::Schbench(args)) => Command::SimSchbench(Box::new(args.check()?)),
        Some(OwnSim::Validate(args)) => Command::SimValidate(args.check()),
    })
}

/// The command line as users see it: without the commands that this program calls by itself.
pub fn shape() -> clap::Command {
    let whole = Top::command();
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

/// perf's `-p` has no value, and may come before the workload, which is no list of processes.
fn tell_perfs_p(arguments: &mut [OsString]) {
    let is_workload = |text: &OsString| text.to_str().is_some_and(|text| text.parse::<Workload>().is_ok());
    for number in 1..arguments.len() {
        if arguments[number - 1] == "-p" && is_workload(&arguments[number]) {
            arguments[number - 1] = "--pi".into();
        }
    }
}

/// `bench --json schbench`: the flags of a workload that has its own are its own also before its name, which is answered.
fn put_first(arguments: &mut [OsString], verb: Option<&clap::Command>) -> Option<String> {
    let is_own = |argument: &OsString| verb.is_some_and(|verb| verb.find_subcommand(argument).is_some());
    let place = (2..arguments.len()).find(|place| is_own(&arguments[*place]))?;
    let is_flag = |argument: &OsString| argument.to_str().is_some_and(|text| text.starts_with('-'));
    if !arguments[2..place].iter().all(is_flag) {
        return None;
    }
    arguments[2..=place].rotate_right(1);
    arguments[2].to_str().map(str::to_string)
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
    /// Measure every scheme beside the kernel's futex and parking_lot_core
    #[command(after_long_help = bench::ROWS)]
    Bench(BenchVerb),
    /// Run a program with its futexes on the engine
    #[command(long_about = run::ABOUT, after_long_help = run::MORE)]
    Run(Box<run::RunArgs>),
    /// Measure this machine, and write a page about it beside what was published
    #[command(after_long_help = report::MORE)]
    Report(report::ReportArgs),
    /// What has changed between two files of rows, beyond noise
    #[command(after_long_help = compare::MORE)]
    Compare(CompareArgs),
    /// Run the engine on virtual cores of a machine that need not be there
    #[command(after_long_help = sim::ROWS)]
    Sim(SimVerb),
    /// Watch a program's futexes, and say which settings it wants
    #[command(long_about = advise::ABOUT, after_long_help = advise::MORE)]
    Advise(advise::AdviseArgs),
    /// Print what makes a shell complete this command line
    #[command(after_long_help = manual::COMPLETIONS)]
    Completions(CompletionsArgs),
    /// Print a manual page
    #[command(after_long_help = manual::MAN)]
    Man(ManArgs),
    /// One repeat of `bench growth`, in a process of its own
    #[command(hide = true)]
    GrowthChild(GrowthChildArgs),
    /// One process of one sample of `bench timers`, on the kernel
    #[command(hide = true)]
    TimersChild(TimersChildArgs),
    /// One process of one sample of `bench hash --sweep`, on the kernel
    #[command(hide = true)]
    SweepChild(SweepChildArgs),
}

/// The workloads that share flags, or one that has its own.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true, subcommand_value_name = "WORKLOAD")]
struct BenchVerb {
    #[command(flatten)]
    args: Box<BenchArgs>,
    #[command(subcommand)]
    own: Option<Own>,
}

#[derive(Subcommand)]
enum Own {
    /// schbench: message threads and their workers wake one another; flags of its own, see its --help
    #[command(after_long_help = schbench::MORE)]
    Schbench(Box<schbench::SchbenchArgs>),
    /// What a guest's operations take while another guest attacks; flags of its own, see its --help
    #[command(after_long_help = neighbour::MORE)]
    Neighbour(Box<neighbour::NeighbourArgs>),
}

/// The same on virtual cores.
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
    /// The designs of a timer table, and ours
    #[command(after_long_help = sim_more::TIMERS)]
    Timers(Box<sim_more::TimersArgs>),
    /// The pattern of schbench's threads
    #[command(after_long_help = sim_more::SCHBENCH)]
    Schbench(Box<sim_more::SchbenchArgs>),
    /// Published figures, beside this machine's and the model's; exit 1 where the model misses
    #[command(alias = "seeds", after_long_help = sim_more::VALIDATE)]
    Validate(sim_more::ValidateArgs),
}

/// What one repeat of `growth` needs to know.
#[derive(Args)]
struct GrowthChildArgs {
    /// Whose table grows.
    #[arg(long, value_parser = values::one_of::<Name>())]
    pub target: Name,
    /// Threads that park one after another.
    #[arg(long)]
    pub threads: usize,
    /// The layout of our tables.
    #[arg(long, value_parser = values::one_of::<Layout>())]
    pub layout: Layout,
    /// The size policy of our table.
    #[arg(long, value_parser = values::policy)]
    pub policy: Policy,
}

impl From<GrowthChildArgs> for growth_child::Child {
    fn from(args: GrowthChildArgs) -> Self {
        let GrowthChildArgs { target, threads, layout, policy } = args;
        Self { target, threads, layout, policy }
    }
}

/// What one process of several on the kernel's timers needs to know.
#[derive(Args)]
struct TimersChildArgs {
    /// What is measured.
    #[arg(long, value_parser = values::one_of::<Test>())]
    pub test: Test,
    /// Timers of each thread.
    #[arg(long)]
    pub timers: usize,
    /// Threads of this process.
    #[arg(long)]
    pub threads: usize,
    /// How many threads the processes before it have.
    #[arg(long)]
    pub before: usize,
}

impl From<TimersChildArgs> for timers::child::Child {
    fn from(args: TimersChildArgs) -> Self {
        let TimersChildArgs { test, timers, threads, before } = args;
        Self { test, timers, threads, before }
    }
}

/// What one process on the kernel's futexes needs to know.
#[derive(Args)]
struct SweepChildArgs {
    /// Threads of this process.
    #[arg(long)]
    pub threads: usize,
    /// Words of each thread.
    #[arg(long)]
    pub futexes: usize,
    /// From a word to the next, in bytes.
    #[arg(long)]
    pub stride: usize,
    /// Slots of the process's table; 0: the global one.
    #[arg(long)]
    pub slots: usize,
    /// The CPUs of its threads, in turn.
    #[arg(long, value_delimiter = ',')]
    pub cpus: Vec<usize>,
    /// For how long it hammers.
    #[arg(long)]
    pub microseconds: u64,
}

impl From<SweepChildArgs> for sweep::child::Child {
    fn from(args: SweepChildArgs) -> Self {
        let SweepChildArgs { threads, futexes, stride, slots, cpus, microseconds } = args;
        Self { threads, futexes, stride, slots, cpus, microseconds }
    }
}
