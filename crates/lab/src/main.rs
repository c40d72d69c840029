//! The `ufutex` command.
//! `ufutex bench` measures every futex scheme of the engine, the host's kernel and `parking_lot_core`.
//! `ufutex run` runs a program with its futexes on the engine, and `ufutex sim` runs the engine on virtual cores.
//! `ufutex report` writes a page about this machine, and `ufutex compare` compares two files of rows.
//! `ufutex soak` uses everything at once, and accounts for it.
//!
//! This package has the command line only: `cli` turns arguments into settings. The work is in the packages next to this
//! one. Results go to stdout (tables, or one JSON object on a
//! line), everything else to stderr.

// `eprintln!` panics if stderr cannot be written; `stderr::say` does not.
#![cfg_attr(not(test), deny(clippy::print_stderr))]

mod cli;
mod heap;
mod manual;

use lab_bench as bench;
use lab_measure::interrupt;
use lab_report::page;
use lab_run::{advise, run};
use lab_sim as sim;
use lab_soak as soak;
use lab_terminal::{stderr, stdout};
use std::io::Write;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: heap::Heap = heap::Heap;

/// Exit status for a mistake in the arguments: nothing has been run.
const EXIT_USAGE: u8 = 2;
/// Exit status for a failure of this program.
const EXIT_FAILURE: u8 = 1;

fn main() -> ExitCode {
    let command = match cli::parse(std::env::args_os()) {
        Ok(command) => command,
        Err(cli::Refusal::Information(text)) => {
            // `anstream` follows NO_COLOR, CLICOLOR and the terminal. A closed pipe (`| head`) is no error.
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
            return lab_compare::run(&args).unwrap_or_else(|line| {
                stderr::say(line);
                ExitCode::from(EXIT_USAGE)
            });
        }
        cli::Command::Advise(advise) => {
            return match watch() {
                Ok(()) => advise::run(&advise),
                Err(error) => failed(&error),
            };
        }
        cli::Command::Locks(locks) => {
            return match watch() {
                Ok(()) => lab_waits::run(&locks),
                Err(error) => failed(&error),
            };
        }
        cli::Command::Soak(settings) => {
            return match watch().and_then(|()| soak::run(&settings)) {
                Ok(soak::Verdict::Clean) => ExitCode::SUCCESS,
                Ok(soak::Verdict::Interrupted) => ExitCode::from(interrupt::EXIT),
                Ok(soak::Verdict::Broken) => ExitCode::from(EXIT_FAILURE),
                Err(error) => failed(&error),
            };
        }
        command => watch().and_then(|()| measure(&command)),
    };
    match outcome {
        Err(error) if stdout::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) if !interrupt::requested() => failed(&error),
        _ if interrupt::requested() => ExitCode::from(interrupt::EXIT),
        _ => ExitCode::SUCCESS,
    }
}

/// Installs the handler of Ctrl-C. Simulations end with it too.
fn watch() -> anyhow::Result<()> {
    ufutex_coherence::give_up_when(interrupt::requested);
    interrupt::watch()
}

fn measure(command: &cli::Command) -> anyhow::Result<()> {
    match command {
        cli::Command::Bench(bench) => bench::run(bench),
        cli::Command::Sim(settings) => sim::run(settings),
        cli::Command::SimTimers(settings) => sim::timers::print(settings),
        cli::Command::SimSchbench(settings) => sim::schbench::print(settings),
        cli::Command::SimValidate(settings) => sim::validate::run(settings),
        cli::Command::Completions(args) => manual::completions(args.shell),
        cli::Command::Man(args) => match &args.output {
            Some(directory) => manual::pages(directory),
            None => manual::page(&args.name()),
        },
        // `main` runs these, because they have their own exit statuses.
        cli::Command::Run(_)
        | cli::Command::Advise(_)
        | cli::Command::Compare(_)
        | cli::Command::Locks(_)
        | cli::Command::Soak(_) => Ok(()),
        cli::Command::Report(report) => page::run(report),
        cli::Command::Child(child) => child.run(),
    }
}

fn failed(error: &anyhow::Error) -> ExitCode {
    stderr::say(format_args!("{error:#}"));
    ExitCode::from(EXIT_FAILURE)
}
