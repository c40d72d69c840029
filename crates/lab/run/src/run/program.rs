//! Finds the file of a program, and checks whether the library can be loaded into it.

use super::Failure;
use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use ufutex_program::elf;

/// Where execvp(3) looks for programs if there is no PATH.
const DEFAULT_PATH: &str = "/bin:/usr/bin";
/// What execvp(3) runs for a file that is neither an executable nor a script.
pub const SHELL: &CStr = c"/bin/sh";

/// The file to execute.
pub struct Program {
    /// Its path.
    pub path: CString,
    /// Whether the shell must run it.
    pub needs_shell: bool,
}

/// Finds the program as a shell would, and checks that it can be run with the library.
pub fn find(name: &OsStr) -> Result<Program, Failure> {
    let path = if name.as_bytes().contains(&b'/') { in_c(name)? } else { look_up(name)? };
    if is_directory(&path) {
        return Err(Failure::cannot_run(format!("{} cannot be run: it is a directory", shown(name))));
    }
    check(&path).map(|needs_shell| Program { path, needs_shell })
}

fn look_up(name: &OsStr) -> Result<CString, Failure> {
    let list = std::env::var_os("PATH").unwrap_or(DEFAULT_PATH.into());
    let mut unusable = None;
    // With an empty name, each directory itself would match. An empty directory in PATH is the working directory.
    for directory in list.as_bytes().split(|byte| *byte == b':').filter(|_| !name.is_empty()) {
        let path = in_c(Path::new(OsStr::from_bytes(directory)).join(name).as_os_str())?;
        match may_execute(&path) {
            Ok(()) => return Ok(path),
            Err(error) => match error.kind() {
                io::ErrorKind::PermissionDenied => unusable = unusable.or(Some((path, "permission denied"))),
                io::ErrorKind::IsADirectory => unusable = unusable.or(Some((path, "it is a directory"))),
                _ => {}
            },
        }
    }
    match unusable {
        Some((path, why)) => Err(Failure::cannot_run(format!("{} cannot be run: {why}", path.to_string_lossy()))),
        None => Err(Failure::not_found(format!("'{}' is not found in PATH", shown(name)))),
    }
}

fn is_directory(path: &CStr) -> bool {
    Path::new(OsStr::from_bytes(path.to_bytes())).is_dir()
}

/// Whether the file is one that execve(2) may execute, whatever its contents.
fn may_execute(path: &CStr) -> io::Result<()> {
    if is_directory(path) {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    // SAFETY: the path is a string.
    match unsafe { libc::faccessat(libc::AT_FDCWD, path.as_ptr(), libc::X_OK, libc::AT_EACCESS) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Checks that the library can be loaded. Returns whether the shell must run the file.
fn check(path: &CStr) -> Result<bool, Failure> {
    let failure = |refusal: &elf::Refusal, path: &CStr| {
        let line = refusal.about(path.to_bytes()).to_string();
        match refusal.kernel_error() {
            Some(libc::ENOENT | libc::ENOTDIR) => Failure::not_found(line),
            _ => Failure::cannot_run(line),
        }
    };
    match elf::check(libc::AT_FDCWD, path) {
        Ok(()) => Ok(false),
        Err(refusal) if refusal.kernel_error() == Some(libc::ENOEXEC) => match elf::check(libc::AT_FDCWD, SHELL) {
            Ok(()) => Ok(true),
            Err(refusal) => Err(failure(&refusal, SHELL)),
        },
        Err(refusal) => Err(failure(&refusal, path)),
    }
}

fn in_c(text: &OsStr) -> Result<CString, Failure> {
    // The arguments of a process contain no NUL.
    CString::new(text.as_bytes()).map_err(|_| Failure::not_found(format!("'{}' is not a path", shown(text))))
}

fn shown(text: &OsStr) -> String {
    let text = text.to_string_lossy();
    text.chars().flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] }).collect()
}
