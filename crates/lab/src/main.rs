//! The `ufutex` command.
//! `ufutex bench` measures every futex scheme of the engine, the host's kernel and `parking_lot_core`.
//! `ufutex run` runs a program with its futexes on the engine, and `ufutex sim` runs the engine on virtual cores.
//! `ufutex report` writes a page about this machine, and `ufutex compare` compares two files of rows.
//! `ufutex soak` uses everything at once, and accounts for it.
//!
//! This package has the command line only: `cli` turns arguments into a function to run. The work is in the packages next to this
//! one. Results go to stdout (tables, or one JSON object on a line), everything else to stderr.

// `eprintln!` panics if stderr cannot be written; `stderr::say` does not.
#![cfg_attr(not(test), deny(clippy::print_stderr))]

mod cli;
mod heap;
mod manual;

use lab_measure::interrupt;
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
    match cli::parse(std::env::args_os()) {
        Ok(command) => command(),
        Err(cli::Refusal::Information(text)) => {
            // `anstream` follows NO_COLOR, CLICOLOR and the terminal. A closed pipe (`| head`) is no error.
            let _ = write!(anstream::stdout(), "{}", text.ansi());
            ExitCode::SUCCESS
        }
        Err(cli::Refusal::Mistake(line)) => {
            stderr::say(line);
            ExitCode::from(EXIT_USAGE)
        }
    }
}

/// A command that notices Ctrl-C and has its own exit statuses.
fn watching(run: impl FnOnce() -> ExitCode + 'static) -> cli::Command {
    Box::new(|| {
        // Simulations end with Ctrl-C too.
        ufutex_coherence::give_up_when(interrupt::requested);
        interrupt::watch().map_or_else(|error| failed(&error), |()| run())
    })
}

/// A command that prints what it finds with these settings, after Ctrl-C what it has found until then.
fn measuring<S: 'static>(settings: S, run: fn(&S) -> anyhow::Result<()>) -> cli::Command {
    watching(move || match run(&settings) {
        Err(error) if stdout::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) if !interrupt::requested() => failed(&error),
        _ if interrupt::requested() => ExitCode::from(interrupt::EXIT),
        _ => ExitCode::SUCCESS,
    })
}

fn failed(error: &anyhow::Error) -> ExitCode {
    stderr::say(format_args!("{error:#}"));
    ExitCode::from(EXIT_FAILURE)
}
