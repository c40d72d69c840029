//! `ufutex run`: loads the library into a program and becomes that program.
//!
//! Everything that can go wrong is found before: a program that is run without the library by mistake would say nothing.

mod exec;
mod inherited;
mod kernel;
mod library;
mod program;

use crate::Run;
use lab_terminal::stderr;
use std::convert::Infallible;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{self, Path, PathBuf};
use std::process::ExitCode;
use ufutex_program::environment::{SETTINGS, can_be_preloaded};
use ufutex_program::settings::Settings;

/// Why the program does not run.
pub struct Failure {
    status: u8,
    line: String,
}

/// Nothing wrong with the program: as in env(1) and timeout(1).
const EXIT_OURS: u8 = 125;
/// The program is there and cannot be run.
const EXIT_CANNOT_RUN: u8 = 126;
/// There is no such program.
const EXIT_NOT_FOUND: u8 = 127;

impl Failure {
    fn ours(line: String) -> Self {
        Self { status: EXIT_OURS, line }
    }

    fn cannot_run(line: String) -> Self {
        Self { status: EXIT_CANNOT_RUN, line }
    }

    fn not_found(line: String) -> Self {
        Self { status: EXIT_NOT_FOUND, line }
    }
}

/// Becomes the program; returns only if it cannot.
pub fn run(run: &Run) -> ExitCode {
    let Err(failure) = become_program(run);
    stderr::say(failure.line);
    ExitCode::from(failure.status)
}

fn become_program(run: &Run) -> Result<Infallible, Failure> {
    let library = library::find()?;
    if !can_be_preloaded(library.as_os_str().as_bytes()) {
        return Err(Failure::ours(format!(
            "{}: LD_PRELOAD cannot name a path with a space, colon or $; link to it from elsewhere and name the link by \
             UFUTEX_PRELOAD",
            library.display()
        )));
    }
    let program = program::find(&run.command[0])?;
    if let (true, Some(slots)) = (run.settings.kernel, run.settings.slots) {
        if has(|settings| settings.trap) {
            return Err(Failure::ours(
                "--kernel: this command itself is run with --trap, which cannot be taken off; accepted: outside of it"
                    .to_string(),
            ));
        }
        kernel::accepts(slots, run.settings.immutable).map_err(|why| Failure::ours(format!("--kernel {why}")))?;
    }
    let output = run.output.as_deref().map(empty_file).transpose()?;
    let settings = Settings {
        trap: run.settings.trap || has(|settings| settings.trap),
        watch: has(|settings| settings.watch) && !run.settings.kernel,
        process: i32::try_from(std::process::id()).ok(),
        output: output.as_ref().map(|path| path.as_os_str().as_bytes()),
        ..run.settings
    };
    Err(exec::exec(&program, &run.command, &library, &settings))
}

/// Whether this very process was run with such a setting. `--trap`: the filter stays, so must whoever answers it. And
/// `ufutex advise` watches.
fn has(setting: fn(&Settings<'_>) -> bool) -> bool {
    let value = std::env::var_os(SETTINGS).unwrap_or_default();
    Settings::parse(value.as_bytes()).is_ok_and(|settings| setting(&settings))
}

/// The file for the report, as it is named wherever the program goes.
fn empty_file(file: &Path) -> Result<PathBuf, Failure> {
    let failed = |error| Failure::ours(format!("{} cannot be written: {error}", file.display()));
    File::create(file).map_err(failed)?;
    path::absolute(file).map_err(failed)
}
