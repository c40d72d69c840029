//! `ufutex bench`: every futex scheme of the engine measured beside the host's kernel and `parking_lot_core`.
//! `ufutex run`: a program with its futexes on the engine.
//! `ufutex report`: a page about this machine. `ufutex compare`: what has changed between two files of rows.
//! `ufutex sim`: the engine on virtual cores.
//!
//! A benchmark is: `cli` reads the flags, `settings` checks them against each other, `workloads` measures, `report` prints.
//! Results go to stdout (tables, or one JSON object a line), everything else to stderr.

// It panics where stderr cannot be written to; see `stderr`.
#![cfg_attr(not(test), deny(clippy::print_stderr))]

mod advise;
mod cli;
mod clock;
mod compare;
mod heap;
mod interrupt;
mod machine;
mod manual;
mod pool;
mod progress;
mod published;
mod report;
mod report_html;
#[cfg_attr(not(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu")), path = "run/elsewhere.rs")]
mod run;
mod sample;
mod series;
mod settings;
mod sim;
mod stats;
mod stderr;
mod targets;
mod workloads;

use std::io::Write;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: heap::Heap = heap::Heap;

/// What a caller's mistake ends with: nothing has been run.
const EXIT_USAGE: u8 = 2;
/// What a failure of the lab itself ends with.
const EXIT_FAILURE: u8 = 1;

fn main() -> ExitCode {
    let command = match cli::parse(std::env::args_os()) {
        Ok(command) => command,
        Err(cli::Refusal::Information(text)) => {
            // As NO_COLOR, CLICOLOR and the terminal want it. A reader that has gone (`| head`) has read enough.
            let _ = write!(anstream::stdout(), "{}", text.ansi());
            return ExitCode::SUCCESS;
        }
        Err(cli::Refusal::Mistake(line)) => {
            stderr::say(line);
            return ExitCode::from(EXIT_USAGE);
        }
    };
    let outcome = match command {
        cli::Command::Run(run) => return run::run(&run),
        cli::Command::Compare(args) => {
            return compare::run(&args).unwrap_or_else(|line| {
                stderr::say(line);
                ExitCode::from(EXIT_USAGE)
            });
        }
        cli::Command::Advise(advise) => {
            return match interrupt::watch() {
                Ok(()) => advise::run(&advise),
                Err(error) => failed(&error),
            };
        }
        command => interrupt::watch().and_then(|()| measure(&command)),
    };
    match outcome {
        Err(error) if report::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) if !interrupt::asked() => failed(&error),
        _ if interrupt::asked() => ExitCode::from(interrupt::EXIT),
        _ => ExitCode::SUCCESS,
    }
}

fn measure(command: &cli::Command) -> anyhow::Result<()> {
    match command {
        cli::Command::Bench(settings) => workloads::run(settings),
        cli::Command::Schbench(schbench) => workloads::schbench::run(schbench),
        cli::Command::Neighbour(neighbour) => workloads::neighbour::run(neighbour),
        cli::Command::Sim(settings) => sim::run(settings),
        cli::Command::SimTimers(settings) => sim::timers::print(settings),
        cli::Command::SimSchbench(settings) => sim::schbench::print(settings),
        cli::Command::SimValidate(settings) => sim::seeds::run(settings),
        cli::Command::Completions(args) => manual::completions(args.shell),
        cli::Command::Man(args) => match &args.output {
            Some(directory) => manual::pages(directory),
            None => manual::page(&args.name()),
        },
        // See `main`: their exit statuses are of their own.
        cli::Command::Run(_) | cli::Command::Advise(_) | cli::Command::Compare(_) => Ok(()),
        cli::Command::Report(report) => report_html::run(report),
        cli::Command::GrowthChild(child) => workloads::growth_child::run(child),
        cli::Command::TimersChild(child) => workloads::timers::child::run(child),
        cli::Command::SweepChild(child) => workloads::sweep::child::run(child),
    }
}

fn failed(error: &anyhow::Error) -> ExitCode {
    stderr::say(format_args!("{error:#}"));
    ExitCode::from(EXIT_FAILURE)
}
