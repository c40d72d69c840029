//! `ufutex run`: preloads the library into a program and executes the program.
//!
//! All errors are found before that. A program that ran without the library by mistake would not show it.

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

/// Why the program was not executed: the exit status, and a line for stderr.
pub struct Failure {
    status: u8,
    line: String,
}

/// A failure of this command, not of the program, as in env(1) and timeout(1).
const EXIT_OURS: u8 = 125;
/// The program exists and cannot be executed.
const EXIT_CANNOT_RUN: u8 = 126;
/// The program was not found.
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

/// Executes the program. Returns only on failure.
pub fn run(run: &Run) -> ExitCode {
    let Err(failure) = become_program(run);
    stderr::say(failure.line);
    ExitCode::from(failure.status)
}

fn become_program(run: &Run) -> Result<Infallible, Failure> {
    let library = library::find()?;
    if !can_be_preloaded(library.as_os_str().as_bytes()) {
        return Err(Failure::ours(format!(
            "{}: LD_PRELOAD accepts no path with a space, colon or $; accepted: a link without them, named in \
            UFUTEX_PRELOAD",
            library.display()
        )));
    }
    let program = program::find(&run.command[0])?;
    let outer = std::env::var_os(SETTINGS).unwrap_or_default();
    // What this process itself was run with. A program that it runs must keep `trap`, because the filter stays installed;
    // `watch`, which `ufutex advise` set; and `profile`, which `ufutex locks` set.
    let outer = Settings::parse(outer.as_bytes()).unwrap_or_default();
    if let (true, Some(slots)) = (run.settings.kernel, run.settings.slots) {
        if outer.trap {
            return Err(Failure::ours(
                "--kernel: this process already runs under --trap; accepted: run it outside".to_string(),
            ));
        }
        kernel::accepts(slots, run.settings.immutable).map_err(|why| Failure::ours(format!("--kernel {why}")))?;
    }
    let output = run.output.as_deref().map(empty_file).transpose()?;
    let settings = Settings {
        trap: run.settings.trap || outer.trap,
        watch: outer.watch && !run.settings.kernel,
        children: run.settings.children || outer.children && outer.profile.is_some(),
        profile: outer.profile,
        process: i32::try_from(std::process::id()).ok(),
        output: output.as_ref().map(|path| path.as_os_str().as_bytes()),
        ..run.settings
    };
    Err(exec::exec(&program, &run.command, &library, &settings))
}

/// Creates the file for the report. Returns its absolute path, which is valid in any working directory.
fn empty_file(file: &Path) -> Result<PathBuf, Failure> {
    let failed = |error| Failure::ours(format!("{} cannot be written: {error}", file.display()));
    File::create(file).map_err(failed)?;
    path::absolute(file).map_err(failed)
}
