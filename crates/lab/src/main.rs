//! `ufutex bench`: every futex scheme of the engine measured beside the host's kernel and `parking_lot_core`.
//! `ufutex run`: a program with its futexes on the engine.
//! `ufutex report`: a page about this machine. `ufutex compare`: what has changed between two files of rows.
//! `ufutex sim`: the engine on virtual cores.
//!
//! The command line alone: `cli` makes settings of arguments. What they ask for is done by the lab's rooms, packages
//! beside this one: `bench`, `sim` and `run` hand their results to `report`. Results go to stdout (tables, or one JSON
//! object a line), everything else to stderr.

// It panics where stderr cannot be written to; see `stderr`.
#![cfg_attr(not(test), deny(clippy::print_stderr))]

mod cli;
mod heap;
mod manual;

use lab_bench as bench;
use lab_measure::interrupt;
use lab_report::{Printer, compare, page};
use lab_run::{advise, run};
use lab_sim as sim;
use lab_terminal::{stderr, stdout};
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
            return match watch() {
                Ok(()) => advise::run(&advise),
                Err(error) => failed(&error),
            };
        }
        command => watch().and_then(|()| measure(&command)),
    };
    match outcome {
        Err(error) if stdout::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) if !interrupt::asked() => failed(&error),
        _ if interrupt::asked() => ExitCode::from(interrupt::EXIT),
        _ => ExitCode::SUCCESS,
    }
}

/// Ctrl-C ends measurements, and simulations, too.
fn watch() -> anyhow::Result<()> {
    ufutex_coherence::give_up_when(interrupt::asked);
    interrupt::watch()
}

fn measure(command: &cli::Command) -> anyhow::Result<()> {
    match command {
        cli::Command::Bench(settings) => bench::run(settings, &mut Printer::default()),
        cli::Command::Schbench(schbench) => bench::schbench::run(schbench, &mut Printer::default()),
        cli::Command::Neighbour(neighbour) => bench::neighbour::run(neighbour, &mut Printer::default()),
        cli::Command::Sim(settings) => sim::run(settings),
        cli::Command::SimTimers(settings) => sim::timers::print(settings),
        cli::Command::SimSchbench(settings) => sim::schbench::print(settings),
        cli::Command::SimValidate(settings) => sim::validate::run(settings),
        cli::Command::Completions(args) => manual::completions(args.shell),
        cli::Command::Man(args) => match &args.output {
            Some(directory) => manual::pages(directory),
            None => manual::page(&args.name()),
        },
        // See `main`: their exit statuses are of their own.
        cli::Command::Run(_) | cli::Command::Advise(_) | cli::Command::Compare(_) => Ok(()),
        cli::Command::Report(report) => page::run(report),
        cli::Command::GrowthChild(child) => bench::growth_child::run(child),
        cli::Command::TimersChild(child) => bench::timers::child::run(child),
        cli::Command::SweepChild(child) => bench::sweep::child::run(child),
    }
}

fn failed(error: &anyhow::Error) -> ExitCode {
    stderr::say(format_args!("{error:#}"));
    ExitCode::from(EXIT_FAILURE)
}
