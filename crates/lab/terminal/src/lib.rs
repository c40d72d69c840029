//! What the lab's user sees: lines on stderr, a progress bar there, results and tables on stdout.

// `eprintln!` panics if stderr cannot be written; see `stderr`.
#![cfg_attr(not(test), deny(clippy::print_stderr))]

pub mod progress;
pub mod stderr;
pub mod stdout;
pub mod table;
