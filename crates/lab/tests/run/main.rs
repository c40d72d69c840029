//! `ufutex run` from a user's view: the program replaces the command's process and inherits everything, and a program
//! that cannot be run is refused in one line. Effects on futexes are tested in `tests/programs`.
#![cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]

mod command;
mod options;
mod process;
mod program;
mod report;
#[path = "../../../ufutex/tests/common/skipped.rs"]
mod skipped;
mod slots;
