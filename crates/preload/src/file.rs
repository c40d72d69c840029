//! Small files and directories of the kernel's, such as those in /proc, read by system calls of our own: without std, which
//! may use thread-local storage that a thread does not have, and from a thread with a file table of its own.

use core::ffi::CStr;
use core::str;

use crate::raw;

/// Reads the beginning of a file. `path` ends at its first 0.
pub fn read<'t>(path: &[u8], to: &'t mut [u8]) -> Option<&'t [u8]> {
    read_by(libc::SYS_read, path, 0, to)
}

/// Reads the first entries of a directory: getdents64(2).
pub fn entries<'t>(path: &[u8], to: &'t mut [u8]) -> Option<&'t [u8]> {
    read_by(libc::SYS_getdents64, path, libc::O_DIRECTORY, to)
}

fn read_by<'t>(call: i64, path: &[u8], flags: i32, to: &'t mut [u8]) -> Option<&'t [u8]> {
    let path = CStr::from_bytes_until_nul(path).ok()?;
    let flags = (libc::O_RDONLY | libc::O_CLOEXEC | flags) as u64;
    // SAFETY: a string, and `to` has room for what is read.
    let length = unsafe {
        let file = raw::own(libc::SYS_openat, [libc::AT_FDCWD as u64, path.as_ptr() as u64, flags, 0]);
        if file < 0 {
            return None;
        }
        let length = raw::own(call, [file as u64, to.as_mut_ptr() as u64, to.len() as u64]);
        raw::own(libc::SYS_close, [file as u64]);
        length
    };
    to.get(..usize::try_from(length).ok()?)
}

/// What stands behind `name` and a colon in a `status` file of /proc: see proc_pid_status(5).
pub fn field<'t>(status: &'t [u8], name: &str) -> Option<&'t str> {
    let of_name = |line: &'t str| line.strip_prefix(name)?.strip_prefix(':');
    str::from_utf8(status).ok()?.lines().find_map(of_name).map(str::trim)
}
