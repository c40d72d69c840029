//! Small files and directories of the kernel's, such as those in /proc, read by system calls of our own: without std, which
//! may use thread-local storage that a thread does not have, and from a thread with a file table of its own.

use core::ffi::CStr;
use core::mem::offset_of;
use core::str;
use std::vec::Vec;

use crate::raw;

/// Reads the beginning of a file. `path` ends at its first 0.
pub fn read<'t>(path: &[u8], to: &'t mut [u8]) -> Option<&'t [u8]> {
    let mut length = None;
    opened(path, 0, |file| length = read_by(libc::SYS_read, file, to));
    to.get(..length?)
}

/// Reads a whole file.
pub fn read_all(path: &[u8]) -> Option<Vec<u8>> {
    let mut all = None;
    opened(path, 0, |file| {
        let mut bytes = Vec::new();
        let mut buffer = [0; 4096];
        while let Some(filled @ 1..) = read_by(libc::SYS_read, file, &mut buffer) {
            bytes.extend_from_slice(&buffer[..filled]);
        }
        all = Some(bytes);
    });
    all
}

/// Writes all of `bytes` at an offset of a file. Returns `false` if that is not possible.
pub fn write_at(path: &[u8], offset: u64, bytes: &[u8]) -> bool {
    let mut is_written = false;
    opened(path, libc::O_WRONLY, |file| {
        // SAFETY: `bytes` are read. What the file is, the caller knows.
        let written =
            unsafe { raw::own(libc::SYS_pwrite64, [file, bytes.as_ptr() as u64, bytes.len() as u64, offset]) };
        is_written = written == bytes.len() as isize;
    });
    is_written
}

/// Calls `f` with the name of each entry of a directory, until it returns `false`. `buffer` holds some at a time.
pub fn each_entry(path: &[u8], buffer: &mut [u8], mut f: impl FnMut(&[u8]) -> bool) {
    const NAME: usize = offset_of!(Entry, kind) + 1;
    opened(path, libc::O_DIRECTORY, |file| {
        while let Some(filled @ 1..) = read_by(libc::SYS_getdents64, file, buffer) {
            let mut rest = &buffer[..filled];
            while let Some(length) = rest.get(offset_of!(Entry, length)..NAME) {
                let length = u16::from_ne_bytes([length[0], length[1]]) as usize;
                let name = rest.get(NAME..length).unwrap_or_default();
                if !f(name.split(|byte| *byte == 0).next().unwrap_or_default()) {
                    return;
                }
                rest = rest.get(length.max(NAME)..).unwrap_or_default();
            }
        }
    });
}

/// The beginning of the kernel's `struct linux_dirent64`, behind which the name follows.
#[repr(C)]
struct Entry {
    inode: u64,
    offset: u64,
    length: u16,
    kind: u8,
}

/// The number that is a file's name.
pub fn number(name: &[u8]) -> Option<i32> {
    str::from_utf8(name).ok()?.parse().ok()
}

/// Opens a file for `f`, if that is possible.
fn opened(path: &[u8], flags: i32, f: impl FnOnce(u64)) {
    let Ok(path) = CStr::from_bytes_until_nul(path) else { return };
    let flags = (libc::O_RDONLY | libc::O_CLOEXEC | flags) as u64;
    // SAFETY: a string.
    let file = unsafe { raw::own(libc::SYS_openat, [libc::AT_FDCWD as u64, path.as_ptr() as u64, flags, 0]) };
    if file >= 0 {
        f(file as u64);
        // SAFETY: opened just now.
        unsafe { raw::own(libc::SYS_close, [file as u64]) };
    }
}

/// Makes read(2) or getdents64(2). Returns how many bytes of `to` are filled.
fn read_by(call: i64, file: u64, to: &mut [u8]) -> Option<usize> {
    // SAFETY: `to` has room for what is read.
    usize::try_from(unsafe { raw::own(call, [file, to.as_mut_ptr() as u64, to.len() as u64]) }).ok()
}

/// What stands behind `name` and a colon in a `status` file of /proc: see proc_pid_status(5).
pub fn field<'t>(status: &'t [u8], name: &str) -> Option<&'t str> {
    let of_name = |line: &'t str| line.strip_prefix(name)?.strip_prefix(':');
    str::from_utf8(status).ok()?.lines().find_map(of_name).map(str::trim)
}
