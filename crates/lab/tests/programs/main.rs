//! Real programs run on the engine as on the kernel: with the same output and status in each mode of `ufutex run`. The
//! result on the kernel alone is the expected one, and each program checks its own invariants.
//!
//! - `c/`: our own programs, each named after what it tests;
//! - `others/`: C++, Go, Java and Python; `standard_library.rs` is a Rust program, run as this test's own executable;
//! - `started.rs`: programs that cannot be run, and what a program sees of how it was started;
//! - `installed.rs`: Debian's programs. Missing ones are skipped.
//!
//! `cargo test -p lab --test programs -- mutex` runs the trials with `mutex` in their name. A trial is named
//! program::mode. `UFUTEX_PROGRAMS_LAUNCHER=/path/to/ufutex` uses another build of the command.

mod compile;
mod installed;
mod mode;
mod program;
mod run;
#[path = "../../../ufutex/tests/common/skipped.rs"]
mod skipped;
mod standard_library;
mod started;
#[path = "../common/turns.rs"]
#[allow(dead_code, reason = "nothing is measured here")]
mod turns;

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Completion, Failed, Trial};

use crate::mode::Mode;
use crate::program::Outcome;

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some(standard_library::ARGUMENT) {
        standard_library::main();
        return ExitCode::SUCCESS;
    }
    let mut arguments = Arguments::from_args();
    // Half of a program's time is waiting, so two a CPU run at once. No more than 8: most have several threads, and all
    // have a time limit.
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    arguments.test_threads.get_or_insert((2 * cpus).min(8));
    libtest_mimic::run(&arguments, trials()).exit_code()
}

fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for program in program::ours().into_iter().chain(installed::programs()) {
        let program = Arc::new(program);
        for &mode in std::iter::once(&Mode::Kernel).chain(program.modes) {
            let program = Arc::clone(&program);
            let name = format!("{}::{mode}", program.name);
            trials.push(Trial::ignorable_test(name, move || verdict(program.judge(mode))));
        }
    }
    let started = started::TRIALS.iter().map(|&(name, trial)| Trial::ignorable_test(name, move || verdict(trial())));
    trials.extend(started);
    trials
}

fn verdict(outcome: Outcome) -> Result<Completion, Failed> {
    match outcome {
        Outcome::Right => Ok(Completion::Completed),
        Outcome::Wrong(how) => Err(how.into()),
        Outcome::Skipped(reason) => {
            skipped::skip(&reason);
            Ok(Completion::ignored_with(reason))
        }
    }
}
