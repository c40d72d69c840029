//! The program that `ufutex locks` or `ufutex advise` watches. A process of `ufutex run` becomes the program.

use anyhow::{Context, Result};
use lab_terminal::stderr;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode};
use std::time::Duration;
use ufutex_program::environment::SETTINGS;

/// Time from SIGTERM to SIGKILL.
pub const GRACE: Duration = Duration::from_secs(2);
/// Exit status for a failure of the command itself, as in `ufutex run`.
const EXIT_OURS: u8 = 125;

/// Starts the program by `ufutex run` with these options and these settings of the library.
///
/// # Errors
/// It cannot be started.
pub fn start(options: &[&OsStr], trap: bool, settings: &OsStr, program: &[OsString]) -> Result<Child> {
    let mut command = Command::new(std::env::current_exe().context("cannot find this command's own file")?);
    command.arg("run").args(options).env(SETTINGS, settings);
    if trap {
        command.arg("--trap");
    }
    // SAFETY: one system call between fork and exec. If this process dies, the program gets SIGTERM.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM as libc::c_ulong, 0, 0, 0);
            Ok(())
        })
    };
    command.arg("--").args(program).spawn().context("cannot start the program")
}

/// Sends a signal to a program that has not been waited for.
pub fn send(program: &Child, signal: i32) {
    // SAFETY: our own child, which has not been waited for, so its PID has not been reused.
    unsafe { libc::kill(program.id() as i32, signal) };
}

/// Says what went wrong, if anything did.
pub fn exit(result: Result<u8>) -> ExitCode {
    ExitCode::from(result.unwrap_or_else(|error| {
        stderr::say(format_args!("{error:#}"));
        EXIT_OURS
    }))
}
