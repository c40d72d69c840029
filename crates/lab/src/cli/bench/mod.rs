//! `ufutex bench`: one subcommand for each workload, with its own flags, and `bench` alone for all of them.

mod all;
mod common;
mod crowd;
mod growth;
mod hash;
mod lock_pi;
mod locks;
mod neighbour;
mod noise;
mod ping_pong;
mod requeue;
mod resize;
mod schbench;
mod timers;
mod wake;
mod wake_parallel;
mod wasm;

use super::Command;
use all::AllArgs;
use clap::{Args, Subcommand};
use lab_bench::perf::FirstLine;
use lab_bench::settings::{Buckets, Settings};
use lab_bench::{Asked, Bench, Job};

/// One workload, or all.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true, subcommand_value_name = "WORKLOAD")]
pub struct BenchVerb {
    #[command(flatten)]
    all: Box<AllArgs>,
    #[command(subcommand)]
    workload: Option<Workload>,
}

#[derive(Subcommand)]
enum Workload {
    /// Wait on a word that differs: perf's `futex hash`
    #[command(after_long_help = hash::more())]
    Hash(Box<hash::HashArgs>),
    /// Wake a word without waiters; with -w perf's `futex wake`
    #[command(after_long_help = wake::more())]
    Wake(Box<wake::WakeArgs>),
    /// Resize a table under hammering threads
    #[command(after_long_help = resize::more())]
    Resize(Box<resize::ResizeArgs>),
    /// Threads park one after another: each one's first wait
    #[command(after_long_help = growth::more())]
    Growth(Box<growth::GrowthArgs>),
    /// Two threads wake each other in turn
    #[command(after_long_help = ping_pong::more())]
    PingPong(Box<ping_pong::PingPongArgs>),
    /// Sleeping threads are requeued to another word: perf's `futex requeue`
    #[command(after_long_help = requeue::more())]
    Requeue(Box<requeue::RequeueArgs>),
    /// Several threads each wake a share of the sleepers: perf's `futex wake-parallel`
    #[command(after_long_help = wake_parallel::more())]
    WakeParallel(Box<wake_parallel::WakeParallelArgs>),
    /// Lock and unlock with priority inheritance: perf's `futex lock-pi`
    #[command(after_long_help = lock_pi::more())]
    LockPi(Box<lock_pi::LockPiArgs>),
    /// Wake one of many waiters that are futures or custom
    #[command(after_long_help = crowd::more())]
    Crowd(Box<crowd::CrowdArgs>),
    /// WebAssembly's wait and notify; compared with wasmtime if built with it
    #[command(after_long_help = wasm::more())]
    Wasm(Box<wasm::WasmArgs>),
    /// parking_lot's own benchmarks: on its core, on the engine, and std's locks
    #[command(after_long_help = locks::more())]
    Locks(Box<locks::LocksArgs>),
    /// POSIX timers: the engine's, four designs of a kernel's table, and the host kernel's
    #[command(after_long_help = timers::more())]
    Timers(Box<timers::TimersArgs>),
    /// schbench: message threads and their workers wake each other
    #[command(after_long_help = schbench::MORE)]
    Schbench(Box<schbench::SchbenchArgs>),
    /// A guest's operations while another guest attacks
    #[command(after_long_help = neighbour::MORE)]
    Neighbour(Box<neighbour::NeighbourArgs>),
}

/// A named workload, checked.
pub struct One {
    settings: Settings,
    asked: Asked,
    perf: Option<FirstLine>,
    mlockall: bool,
}

/// Part of the help of every futex workload: the fields of all rows.
const HEAD: &str = "\
Rows of --json, one object per line:
  workload, target, threads, futexes, repeat (rounds), shared; policy and layout of the engine's targets
  buckets        of the table at the end (null: it cannot be seen from outside)
  cpus_apart_ns  one-way time of a cache line between the first two CPUs, if both are used; cpus_distance: near (below
                 60 ns) or far";

const GLOBAL_FOR_GOOD: &str = "--buckets '0' cannot be undone in the kernel; accepted: one workload, or a power of two";

/// End of the help of `bench`.
pub fn more() -> String {
    let text = "\
Without a workload, all but locks, schbench and neighbour run, each for less than its usual time, with a summary at
the end. Several workloads may be named before the flags, if each of them has these flags. `ufutex bench WORKLOAD
--help` has a workload's flags and the fields of its rows.
live, fixed, atomic and percpu are schemes of the engine: how an operation reaches its bucket while tables change. atomic
and percpu count users. They stand in for the tables of Linux 6.16 and since 6.17, whose resizes end by other rules:
docs/BENCHMARKS.md. global is the engine's table for shared words, used for private ones.
-r without --repeat sets the number of rounds; with --repeat it sets the length of a sample.";
    common::more(
        text,
        "  ufutex bench                                  these workloads in about two minutes, with a summary
  ufutex bench hash wake                        two workloads
  ufutex bench hash -t 1,2 -b auto --json       rows for other programs
  ufutex bench hash -t 4 --format perf          print as perf bench futex hash does
  ufutex bench hash --sweep                     by threads, processes and buckets
  ufutex bench timers --tests expire            the lateness of timers",
    )
}

impl BenchVerb {
    /// Checks the flags against each other. An error is one line for the user.
    pub fn check(self) -> Result<Command, String> {
        let one = match self.workload {
            None => return self.all.check().map(|bench| Command::Bench(Box::new(bench))),
            Some(Workload::Schbench(args)) => return args.check().map(|asked| Command::Schbench(Box::new(asked))),
            Some(Workload::Neighbour(args)) => return args.check().map(|asked| Command::Neighbour(Box::new(asked))),
            Some(Workload::Hash(args)) => args.check(),
            Some(Workload::Wake(args)) => args.check(),
            Some(Workload::Resize(args)) => args.check(),
            Some(Workload::Growth(args)) => args.check(),
            Some(Workload::PingPong(args)) => args.check(),
            Some(Workload::Requeue(args)) => args.check(),
            Some(Workload::WakeParallel(args)) => args.check(),
            Some(Workload::LockPi(args)) => args.check(),
            Some(Workload::Crowd(args)) => args.check(),
            Some(Workload::Wasm(args)) => args.check(),
            Some(Workload::Locks(args)) => args.check(),
            Some(Workload::Timers(args)) => args.check(),
        }?;
        let One { settings, asked, perf, mlockall } = one;
        let jobs = vec![Job { settings, asked }];
        Ok(Command::Bench(Box::new(Bench { jobs, is_all: false, figures: false, perf, mlockall })))
    }
}

/// Joins several workloads, each parsed with the same flags, into one run.
pub fn together(commands: Vec<(String, Command)>) -> Result<Command, String> {
    let mut all: Option<Bench> = None;
    let names: Vec<String> = commands.iter().map(|(name, _)| name.clone()).collect();
    for (name, command) in commands {
        let Command::Bench(bench) = command else {
            let others: Vec<_> = names.into_iter().filter(|other| *other != name).collect();
            return Err(format!("'{name}' cannot be combined with {}; accepted: '{name}' alone", others.join(", ")));
        };
        // A process that has chosen the kernel's global table keeps it, also in later workloads.
        if bench.perf.is_none() && bench.jobs.iter().any(|job| job.settings.buckets == Buckets::Exactly(0)) {
            return Err(GLOBAL_FOR_GOOD.to_string());
        }
        match &mut all {
            None => all = Some(*bench),
            Some(all) => all.jobs.extend(bench.jobs),
        }
    }
    all.map(|bench| Command::Bench(Box::new(bench))).ok_or_else(|| "no workload given".to_string())
}
