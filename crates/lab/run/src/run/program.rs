//! Which file a program's name means, and whether the library can be loaded into it.

use super::Failure;
use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use ufutex_program::elf;

/// Where programs are looked for without PATH, as by execvp(3).
const DEFAULT_PATH: &str = "/bin:/usr/bin";
/// What runs a file that is neither program nor script, as by execvp(3).
pub const SHELL: &CStr = c"/bin/sh";

/// What is to be executed.
pub struct Program {
    /// The file.
    pub path: CString,
    /// It is for the shell to run.
    pub needs_shell: bool,
}

/// Finds the program as a shell would, and looks whether it can be run with the library.
pub fn find(name: &OsStr) -> Result<Program, Failure> {
    let path = if name.as_bytes().contains(&b'/') { in_c(name)? } else { look_up(name)? };
    check(&path).map(|needs_shell| Program { path, needs_shell })
}

fn look_up(name: &OsStr) -> Result<CString, Failure> {
    let list = std::env::var_os("PATH").unwrap_or(DEFAULT_PATH.into());
    let mut forbidden = None;
    // An empty name would be each directory itself. An empty directory is the working directory.
    for directory in list.as_bytes().split(|byte| *byte == b':').filter(|_| !name.is_empty()) {
        let path = in_c(Path::new(OsStr::from_bytes(directory)).join(name).as_os_str())?;
        match may_execute(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => forbidden = forbidden.or(Some(path)),
            Err(_) => {}
        }
    }
    match forbidden {
        Some(path) => Err(Failure::cannot_run(format!("{} cannot be run: permission denied", path.to_string_lossy()))),
        None => Err(Failure::not_found(format!("'{}' is not found in PATH", shown(name)))),
    }
}

/// Whether execve(2) would take it for a program, whatever is in it.
fn may_execute(path: &CStr) -> io::Result<()> {
    if Path::new(OsStr::from_bytes(path.to_bytes())).metadata()?.is_dir() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    // SAFETY: a string.
    match unsafe { libc::faccessat(libc::AT_FDCWD, path.as_ptr(), libc::X_OK, libc::AT_EACCESS) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether it is for the shell to run.
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
    // Arguments of a process hold no NUL.
    CString::new(text.as_bytes()).map_err(|_| Failure::not_found(format!("'{}' is no path", shown(text))))
}

fn shown(text: &OsStr) -> String {
    let text = text.to_string_lossy();
    text.chars().flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] }).collect()
}
