//! `ufutex run` on platforms without the preloaded library.

use crate::Run;
use lab_terminal::stderr;
use std::env::consts::{ARCH, OS};
use std::process::ExitCode;

/// Prints the reason.
pub fn run(_: &Run) -> ExitCode {
    stderr::say(format_args!(
        "run needs x86-64 Linux with glibc, and this was built for {ARCH} {OS}. bench works here."
    ));
    ExitCode::from(125)
}
