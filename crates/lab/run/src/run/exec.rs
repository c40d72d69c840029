//! Executes the program.

use super::program::{Program, SHELL};
use super::{Failure, inherited};
use std::ffi::{CStr, CString, OsString, c_char};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use ufutex_program::environment::{PRELOAD, SETTINGS, preload_entry, value_of};
use ufutex_program::settings::Settings;

unsafe extern "C" {
    /// The environment of libc. Rust's `vars_os` leaves out entries that are not of the form `NAME=value`.
    static environ: *const *const c_char;
}

/// Executes the program with the library preloaded. Returns only on failure.
pub fn exec(program: &Program, command: &[OsString], library: &Path, settings: &Settings<'_>) -> Failure {
    let Some(strings) = strings(command) else {
        return Failure::cannot_run("an argument contains a NUL byte".to_string());
    };
    let arguments: Vec<&CStr> = if program.needs_shell {
        // Like execvp(3): the shell, the file, the file's arguments.
        [SHELL, &program.path].into_iter().chain(strings[1..].iter().map(CString::as_c_str)).collect()
    } else {
        strings.iter().map(CString::as_c_str).collect()
    };
    let file = if program.needs_shell { SHELL } else { &program.path };
    // SAFETY: this is the only thread, so the environment does not change.
    let inherited_entries = unsafe { entries() };
    let Some(ours) = entries_of_ours(&inherited_entries, library, settings) else {
        return Failure::cannot_run("a path contains a NUL byte".to_string());
    };
    let kept = inherited_entries.into_iter().filter(|entry| !is_ours(entry.to_bytes()));
    let environment: Vec<&CStr> = kept.chain(ours.iter().map(CString::as_c_str)).collect();
    let (arguments, environment) = (list(&arguments), list(&environment));
    inherited::put_back();
    // SAFETY: the arguments are a string and two lists of strings that end with a null pointer.
    unsafe { libc::execve(file.as_ptr(), arguments.as_ptr(), environment.as_ptr()) };
    let error = io::Error::last_os_error();
    let line = format!("{} cannot be run: {error}", program.path.to_string_lossy());
    match error.kind() {
        io::ErrorKind::NotFound => Failure::not_found(line),
        _ => Failure::cannot_run(line),
    }
}

fn strings(command: &[OsString]) -> Option<Vec<CString>> {
    command.iter().map(|argument| CString::new(argument.as_bytes()).ok()).collect()
}

fn is_ours(entry: &[u8]) -> bool {
    [PRELOAD, SETTINGS, SANITIZER].iter().any(|name| value_of(entry, name).is_some())
}

/// The variable with the options of AddressSanitizer.
const SANITIZER: &str = "ASAN_OPTIONS";
/// AddressSanitizer ends a program whose first library is not AddressSanitizer itself. The last option counts.
const ANY_ORDER: &[u8] = b"verify_asan_link_order=0";

/// LD_PRELOAD with our library before its old value, the settings, and what AddressSanitizer needs to know.
fn entries_of_ours(inherited: &[&CStr], library: &Path, settings: &Settings<'_>) -> Option<[CString; 3]> {
    let old = |name| inherited.iter().filter_map(move |entry| value_of(entry.to_bytes(), name));
    // If there are several entries, the loader uses the last, and AddressSanitizer the first.
    let preload = preload_entry(&preloaded_path(library, settings), old(PRELOAD).next_back()).concat();
    let options = old(SANITIZER).next().map_or_else(Vec::new, |options| [options, b":"].concat());
    let sanitizer = [SANITIZER.as_bytes(), b"=", &options, ANY_ORDER].concat();
    let settings = [SETTINGS.as_bytes(), b"=", &settings.to_bytes()].concat();
    Some([CString::new(preload).ok()?, CString::new(settings).ok()?, CString::new(sanitizer).ok()?])
}

/// The library's path for LD_PRELOAD.
///
/// Without a trap, a program that the program executes may be linked with musl. musl's loader would end it, since it cannot
/// relocate the library. It ignores a library that it does not find, and does not know `$ORIGIN`, for which glibc's puts
/// the program's directory. From there it is up to the root, which is its own parent, and down to the library.
fn preloaded_path(library: &Path, settings: &Settings<'_>) -> Vec<u8> {
    const DEPTH: usize = 32;
    let library = library.as_os_str().as_bytes();
    if settings.trap || !library.starts_with(b"/") {
        return library.to_vec();
    }
    [b"$ORIGIN", &b"/..".repeat(DEPTH)[..], library].concat()
}

fn list(strings: &[&CStr]) -> Vec<*const c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect()
}

/// The environment of this process.
///
/// # Safety
/// The environment must not change while the entries are used.
unsafe fn entries<'a>() -> Vec<&'a CStr> {
    let mut entries = Vec::new();
    // SAFETY: `environ` is null, or a list of strings that ends with a null pointer. The caller keeps it constant.
    unsafe {
        let mut next = environ;
        while !next.is_null() && !(*next).is_null() {
            entries.push(CStr::from_ptr(*next));
            next = next.add(1);
        }
    }
    entries
}
