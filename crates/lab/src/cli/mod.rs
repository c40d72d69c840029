//! The command line: perf's flags, and the one line that a mistake gets.

mod advise;
mod compare;
mod manual;
mod mistake;
mod report;
mod run;
pub mod sim;
pub mod sim_more;
pub mod values;

pub use advise::Advise;
pub use compare::CompareArgs;
pub use manual::{CompletionsArgs, ManArgs};
pub use report::Report;
pub use run::Run;

use crate::settings::Settings;
use crate::targets::timers::Test;
use crate::targets::{Layout, Name};
use crate::workloads::Workload;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use values::{Buckets, Line, List, Policy, Targets};

/// What the command line asks for, checked.
pub enum Command {
    /// `ufutex bench`.
    Bench(Box<Settings>),
    /// `ufutex run`.
    Run(Box<Run>),
    /// `ufutex report`.
    Report(Report),
    /// `ufutex compare`.
    Compare(CompareArgs),
    /// `ufutex sim`.
    Sim(Box<sim::Settings>),
    /// `ufutex sim timers`.
    SimTimers(Box<sim_more::TimersSettings>),
    /// `ufutex sim schbench`.
    SimSchbench(Box<sim_more::SchbenchSettings>),
    /// `ufutex sim seeds`.
    SimSeeds(sim_more::SeedsSettings),
    /// `ufutex advise`.
    Advise(Box<Advise>),
    /// `ufutex completions`.
    Completions(CompletionsArgs),
    /// `ufutex man`.
    Man(ManArgs),
    /// The hidden child of `bench growth`.
    GrowthChild(GrowthChildArgs),
    /// The hidden child of `bench timers`.
    TimersChild(TimersChildArgs),
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
    let verb = arguments.get(1).and_then(|verb| verb.to_str()).unwrap_or_default().to_string();
    if verb == "bench" {
        tell_perfs_p(&mut arguments);
    }
    let second = arguments.get(2).and_then(|word| word.to_str()).unwrap_or_default();
    if let Some((_, hidden)) = sim_more::VERBS.iter().find(|(name, _)| verb == "sim" && *name == second) {
        arguments.splice(1..3, [OsString::from(hidden)]);
    }
    let top = shape
        .try_get_matches_from_mut(arguments)
        .and_then(|matches| Top::from_arg_matches(&matches))
        .map_err(|error| mistake::refusal(&error, &shape, &verb))?;
    match top.verb {
        Verb::Bench(args) => {
            Settings::new(*args).map(|settings| Command::Bench(Box::new(settings))).map_err(Refusal::Mistake)
        }
        Verb::Run(args) => args.check().map(|run| Command::Run(Box::new(run))).map_err(Refusal::Mistake),
        Verb::Report(args) => args.check().map(Command::Report).map_err(Refusal::Mistake),
        Verb::Compare(args) => Ok(Command::Compare(args)),
        Verb::Sim(args) => args.check().map(|settings| Command::Sim(Box::new(settings))).map_err(Refusal::Mistake),
        Verb::SimTimers(args) => {
            args.check().map(|settings| Command::SimTimers(Box::new(settings))).map_err(Refusal::Mistake)
        }
        Verb::SimSchbench(args) => Ok(Command::SimSchbench(Box::new(args.check()))),
        Verb::SimSeeds(args) => Ok(Command::SimSeeds(args.check())),
        Verb::Advise(args) => Ok(Command::Advise(Box::new(args.into()))),
        Verb::Completions(args) => Ok(Command::Completions(args)),
        Verb::Man(args) => known_verb(args).map(Command::Man).map_err(Refusal::Mistake),
        Verb::GrowthChild(args) => Ok(Command::GrowthChild(args)),
        Verb::TimersChild(args) => Ok(Command::TimersChild(args)),
    }
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
    let shape = shape();
    match &args.verb {
        Some(verb) if shape.find_subcommand(verb).is_none() => {
            let verbs: Vec<_> = shape.get_subcommands().map(clap::Command::get_name).collect();
            Err(format!("'{}' has no page; accepted: {}", verb.escape_debug(), verbs.join(", ")))
        }
        _ => Ok(args),
    }
}

/// perf's `-p` has no value, and may come before the workload, which is no list of processes.
fn tell_perfs_p(arguments: &mut [OsString]) {
    let is_workload = |text: &OsString| text.to_str().is_some_and(|text| Workload::from_str(text, false).is_ok());
    for number in 1..arguments.len() {
        if arguments[number - 1] == "-p" && is_workload(&arguments[number]) {
            arguments[number - 1] = "--pi".into();
        }
    }
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
    #[command(after_long_help = ROWS)]
    Bench(Box<BenchArgs>),
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
    #[command(after_help = MORE_SIM, after_long_help = sim::ROWS)]
    Sim(Box<sim::SimArgs>),
    /// The designs of a timer table on virtual cores
    #[command(hide = true, bin_name = "ufutex sim timers")]
    SimTimers(Box<sim_more::TimersArgs>),
    /// The pattern of schbench's threads on virtual cores
    #[command(hide = true, bin_name = "ufutex sim schbench")]
    SimSchbench(Box<sim_more::SchbenchArgs>),
    /// The seeds' published figures, what this machine says, and what the model says
    #[command(hide = true, bin_name = "ufutex sim seeds")]
    SimSeeds(sim_more::SeedsArgs),
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
}

/// The flags of `perf bench futex`, and the lab's own.
#[derive(Args)]
pub struct BenchArgs {
    /// What to measure; without it, every workload
    #[arg(value_enum)]
    pub workload: Option<Workload>,
    /// Threads, a comma list [default: hash, wake, lock-pi, wasm 1,2; resize 2,16; growth
    /// 43,171,683,1366; requeue, wake-parallel 1000; locks 1,2,8 on one mutex, 64 on many,
    /// 2 on the lot alone; timers 1, and 2 with 20000 timers]
    #[arg(short, long, value_name = "LIST", value_parser = values::threads, allow_negative_numbers = true)]
    pub threads: Option<List<usize>>,
    /// Futexes (words) of each thread [default: 1024]
    #[arg(short, long, value_name = "N", value_parser = values::futexes, allow_negative_numbers = true)]
    pub futexes: Option<usize>,
    /// Buckets: a power of two, or auto: what `live` settles at under this load, for every target
    #[arg(short, long, value_name = "N", value_parser = values::buckets, allow_negative_numbers = true)]
    pub buckets: Option<Buckets>,
    /// Seconds in all for a workload
    #[arg(short, long, value_name = "SECONDS", value_parser = values::runtime, allow_negative_numbers = true)]
    pub runtime: Option<f64>,
    /// Shared futexes in place of process-private ones
    #[arg(short = 'S', long)]
    pub shared: bool,
    /// No progress and no remarks on stderr
    #[arg(short, long)]
    pub silent: bool,
    /// Targets, a comma list [default: all]; timers has its own: ours, global-lock, precheck, scaled,
    /// radix, kernel
    #[arg(long, value_name = "LIST", value_parser = values::targets)]
    pub targets: Option<Targets>,
    /// Bucket layout of our tables
    #[arg(long, value_enum, default_value = "lean")]
    pub layout: Layout,
    /// Size policy of `live`: threads, load, or a power of two [default: load; with -b N, N]
    #[arg(long, value_name = "POLICY", value_parser = values::policy, allow_negative_numbers = true)]
    pub policy: Option<Policy>,
    /// Rounds (each has one sample of every target); growth runs 9 at least
    #[arg(long, value_name = "N", value_parser = values::repeat, allow_negative_numbers = true)]
    pub repeat: Option<usize>,
    /// hash, wake, wasm: bytes from a word to the next [default: 4, perf's array]
    #[arg(long, value_name = "BYTES", value_parser = values::stride, allow_negative_numbers = true)]
    pub stride: Option<usize>,
    /// resize: slots before [default: 16]
    #[arg(long, value_name = "N", value_parser = values::slots, allow_negative_numbers = true)]
    pub from: Option<usize>,
    /// resize: slots after [default: 1024]
    #[arg(long, value_name = "N", value_parser = values::slots, allow_negative_numbers = true)]
    pub to: Option<usize>,
    /// requeue: waiters to move in one call [default: 1, and all]
    #[arg(short = 'q', long, value_name = "N", value_parser = values::nrequeue, allow_negative_numbers = true)]
    pub nrequeue: Option<usize>,
    /// requeue: all waiters in one call
    #[arg(short = 'B', long)]
    pub broadcast: bool,
    /// requeue: to a lock with priority inheritance; also -p without a list
    #[arg(long)]
    pub pi: bool,
    /// timers: processes, a comma list [default: 1]
    #[arg(short, long, value_name = "LIST", num_args = 0..=1, value_parser = values::processes, allow_negative_numbers = true)]
    pub processes: Option<Option<List<usize>>>,
    /// wake-parallel: threads that wake; they share the sleepers evenly [default: 2]
    #[arg(short = 'w', long, value_name = "N", value_parser = values::nwakers, allow_negative_numbers = true)]
    pub nwakers: Option<usize>,
    /// lock-pi: a lock for each thread in place of one for all
    #[arg(short = 'M', long)]
    pub multi: bool,
    /// lock-pi: microseconds to sleep with the lock [default: 0; perf sleeps 1]
    #[arg(long, value_name = "US", value_parser = values::hold, allow_negative_numbers = true)]
    pub hold: Option<u64>,
    /// crowd: waiters [default: distinct 100,100000; same-bucket 10000]; timers: timers of each thread,
    /// and how often create-delete does it [default: 20000,100000; the others 100000]; a comma list
    #[arg(short = 'n', long, visible_aliases = ["waiters", "timers"], value_name = "LIST",
        value_parser = values::number, allow_negative_numbers = true)]
    pub number: Option<List<usize>>,
    /// timers: what is measured, a comma list [default: all]: create-getoverrun, create-delete, settime, expire
    #[arg(long, value_name = "LIST", value_parser = values::tests)]
    pub tests: Option<List<Test>>,
    /// timers: IDs that the caller chooses, so far apart [default: only 2048 timers, 512 apart]
    #[arg(long, value_name = "STRIDE", value_parser = values::sparse, allow_negative_numbers = true)]
    pub sparse: Option<usize>,
    /// locks: threads that write, of the reader-writer lock [default: 1; and 2]
    #[arg(long, value_name = "N", value_parser = values::lockers, allow_negative_numbers = true)]
    pub writers: Option<usize>,
    /// locks: threads that read [default: 1; and 6]
    #[arg(long, value_name = "N", value_parser = values::lockers, allow_negative_numbers = true)]
    pub readers: Option<usize>,
    /// locks: mutexes of many-locks, and of the lot [default: 16, 1024]
    #[arg(long, value_name = "N", value_parser = values::locks, allow_negative_numbers = true)]
    pub locks: Option<usize>,
    /// locks: steps of work with the lock [default: 1]
    #[arg(long, value_name = "N", value_parser = values::work, allow_negative_numbers = true)]
    pub work_per_critical_section: Option<usize>,
    /// locks: steps of work without [default: 0]
    #[arg(long, value_name = "N", value_parser = values::work, allow_negative_numbers = true)]
    pub work_between_critical_sections: Option<usize>,
    /// locks: which line of parking_lot [default: 0.13]
    #[arg(long, value_enum)]
    pub line: Option<Line>,
    /// One JSON object a line on stdout, nothing else there
    #[arg(long)]
    pub json: bool,
}

/// What one repeat of `growth` needs to know.
#[derive(Args, Clone)]
pub struct GrowthChildArgs {
    /// Whose table grows.
    #[arg(long, value_enum)]
    pub target: Name,
    /// Threads that park one after another.
    #[arg(long)]
    pub threads: usize,
    /// The layout of our tables.
    #[arg(long, value_enum)]
    pub layout: Layout,
    /// The size policy of our table.
    #[arg(long, value_parser = values::policy)]
    pub policy: Policy,
}

/// What one process of several on the kernel's timers needs to know.
#[derive(Args, Clone)]
pub struct TimersChildArgs {
    /// What is measured.
    #[arg(long, value_enum)]
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

const MORE_SIM: &str = "\
With options of their own, see --help after each:
  ufutex sim timers    the designs of a timer table, and ours
  ufutex sim schbench  the pattern of schbench's threads
  ufutex sim seeds     the seeds' published figures, this machine's, and the model's; exit 1 where the model misses";

const ROWS: &str = "\
Rows of --json, one object a line:
  workload, target, threads, futexes, buckets (null: cannot be seen from outside), repeat (rounds), shared;
  policy and layout on our targets; stride (bytes) on hash, wake and wasm.
  hash, wake     ns_per_op {p10, median, p90} as one thread sees it, ops_per_sec of all threads, early_return;
                 ratio_kernel, ratio_parking_lot: medians of this row's ns_per_op over theirs, pairwise in a round,
                 also of the other workloads where the two can do it
  hash, \"section\":\"sizes\"  `live` at explicit sizes and under load; share_of_best: of the best one's ops_per_sec
  resize         resize_us (median; given up after 200 ms), completed (every round), completed_share,
                 op_pause_us {p50, p99, max}: the hammering threads' operations during the resize, all rounds
  growth         first_wait_us {p50, p99, max}, each the median over the repeats
  ping-pong      cpus 1 or 2, ns_per_op one way
  requeue        nrequeue (waiters a call moves), pi, ns_per_op for each waiter moved: the calls alone are timed
  wake-parallel  nwakers, ns_per_op for each waiter woken, as one waker sees it
  lock-pi        multi, hold_us, ns_per_op for one lock and unlock as a thread sees it, ops_per_sec of all threads
  crowd          case (distinct, same-bucket), waiter_kind (future, custom), waiters (same-bucket: that wait for the
                 other word), domains (each with so many), ns_per_op for a wake of one waiter, ratio_fewest: over the
                 row with the fewest waiters, pairwise
  wasm           operation (wait: the word differs; notify: nobody waits), case (words: each thread has its own; one: all
                 threads use the same), ns_per_op, ops_per_sec, early_return, ratio_wasmtime (if built with it)
  locks          case (mutex, rwlock with writers and readers, many-locks with futexes locks; lot: what lies below
                 the locks alone, looking for parked threads where nobody is), ns_per_op for one lock and
                 unlock as a thread sees it, ratio_parking_lot; cpu_ns_per_op, ratio_cpu_parking_lot: of CPU time;
                 targets: parking_lot; live, which is parking_lot on this engine; kernel asks for std's locks (std).
                 Its programs are built by cargo when they are first run
  timers         test (create-getoverrun: each thread creates its timers, asks each for its overruns, deletes them;
                 create-delete: a loop; settime: armed timers are armed again in random order; expire: timers that are
                 due one after another, in a second), timers (of each thread; how often create-delete does it), threads
                 (of each process), processes, sparse (from an ID to the next, where the caller chooses them); create_ns,
                 getoverrun_ns, delete_ns, settime_ns,
                 create_delete_ns (for both): for one, as a thread sees it, of CPU time where it is the only one;
                 bytes_per_timer: of everything; table_bytes: where timers are found, without them; expire, on ours
                 alone: lateness_us {p50, p99, max} of the worst round, lost (never delivered); none of futexes,
                 buckets, shared
  figures        figure, measured, bound, at (most or least), met; after a run of all workloads
  Rows of two threads or more, and ping-pong's on two CPUs, carry cpus_apart_ns, the one-way time of a cache line
  between the first two CPUs, and cpus_distance: near (below 60 ns) or far.
Samples of hash, wake and timers in which a thread had its CPU for less than 95 % of the time are taken once more.
-r without --repeat decides how many rounds there are; with both, how long a sample is.

Exit status:
  0    measured; whether the figures keep their bounds is in the rows
  1    it failed
  2    a mistake in the options
  130  interrupted by Ctrl-C: the rows are of the samples until then; a second Ctrl-C ends it at once

Examples:
  ufutex bench                                  everything, in some two minutes
  ufutex bench hash -t 1,2 -b auto --json       rows for other programs
  ufutex bench timers --tests expire            how late timers are";
