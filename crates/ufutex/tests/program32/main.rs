//! Runs a 32-bit program in C (`guest/`) twice: the kernel answers its futex calls, then the engine. The program prints
//! their results, which must be the same.
//!
//! In the second run seccomp(2) hands the program's calls to this process, which answers them by `Domain::syscall`. The
//! program's futex words lie in memory that both processes map.
#![cfg(all(target_os = "linux", target_arch = "x86_64", target_pointer_width = "64"))]

#[path = "../common/mod.rs"]
mod common;

mod build;
mod filter;
mod listener;
mod memory;
mod program;
mod region;
mod supervisor;

use common::skipped::skip;
use program::{Machine, Outcome, Waits};

/// How many calls the engine must have answered at least, by the numbers of i386. Each ring of `guest/tokens.c` makes a
/// thousand wakes by futex, by futex_time64 and by futex_wake, and there are two.
const LEAST: [(u32, u64); 9] =
    [(240, 4000), (422, 2000), (449, 20), (454, 2000), (455, 20), (456, 12), (311, 50), (312, 8), (filter::EXIT, 50)];

/// Runs the program on the kernel and on the engine. `Err` says why that cannot be done here.
fn on_both(waits: Waits) -> Result<(Outcome, Outcome), String> {
    let guest = build::guest()?;
    Ok((program::run(guest, Machine::Kernel, waits)?, program::run(guest, Machine::Engine, waits)?))
}

/// Runs the program on both, and compares what it prints. `restarts` is the least number of calls of `restart_syscall`.
fn compare(waits: Waits, restarts: u64) {
    let (kernel, engine) = match on_both(waits) {
        Ok(both) => both,
        Err(reason) => return skip(reason),
    };
    let lines = kernel.output.lines().zip(engine.output.lines()).enumerate();
    let differing =
        lines.map(|(i, (kernel, engine))| (i + 1, kernel, engine)).find(|(_, kernel, engine)| kernel != engine);
    assert_eq!(differing, None, "a line, as the kernel and as the engine has it");
    assert_eq!(kernel.output, engine.output);
    for (number, least) in LEAST.into_iter().chain([(supervisor::RESTART, restarts)]) {
        let answered = engine.answered.get(&number).copied().unwrap_or(0);
        assert!(
            answered >= least,
            "of {number} {answered} calls were answered, fewer than {least}: {:?}",
            engine.answered
        );
    }
}

#[test]
fn program_gets_the_same_results_from_the_engine() {
    compare(Waits::Plain, 0);
}

/// The supervisor makes interrupted calls again, or continues them by `restart_syscall`, as the kernel does.
#[test]
fn interruptions_change_no_results() {
    compare(Waits::Interrupted, 1);
}
