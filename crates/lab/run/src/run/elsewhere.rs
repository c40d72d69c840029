//! `ufutex run` where there is nothing to preload.

use crate::Run;
use lab_terminal::stderr;
use std::env::consts::{ARCH, OS};
use std::process::ExitCode;

/// Says so.
pub fn run(_: &Run) -> ExitCode {
    stderr::say(format_args!("run works on x86-64 Linux with glibc, this was built for {ARCH} {OS}; bench works here"));
    ExitCode::from(125)
}
