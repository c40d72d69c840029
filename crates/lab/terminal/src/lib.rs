//! Output of the lab: messages and a progress bar on stderr, results and tables on stdout.

// `eprintln!` panics if stderr cannot be written. Use `stderr`.
#![cfg_attr(not(test), deny(clippy::print_stderr))]

pub mod progress;
pub mod stderr;
pub mod stdout;
pub mod table;
