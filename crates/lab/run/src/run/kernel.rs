//! `--kernel`: whether the kernel gives a process so many slots, asked by a process that is for nothing else.

use std::io;
use ufutex_program::slots::{FLAG_IMMUTABLE, GET_SLOTS, PR_FUTEX_HASH, SET_SLOTS, refusal};

/// What the child ends with where the kernel does not know the call, in place of an errno.
const UNKNOWN: i32 = 255;

/// Whether it does; why not, as the rest of a line after `--kernel`.
pub fn accepts(slots: usize, immutable: bool) -> Result<(), String> {
    // SAFETY: the child makes system calls and ends.
    let child = unsafe { libc::fork() };
    match child {
        // SAFETY: ends the child, without what this process would do at its end.
        0 => unsafe { libc::_exit(ask(slots, immutable)) },
        1.. => {}
        _ => return Err(format!("no process to try it: {}", io::Error::last_os_error())),
    }
    let mut status = 0;
    // SAFETY: waits for our own child, stores its status.
    while unsafe { libc::waitpid(child, &raw mut status, 0) } < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(format!("the process that tries it is lost: {error}"));
        }
    }
    match libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status)) {
        Some(0) => Ok(()),
        Some(UNKNOWN) => Err(refusal(slots, immutable, libc::EINVAL, false)),
        Some(errno) => Err(refusal(slots, immutable, errno, true)),
        // A filter that kills.
        None => Err(refusal(slots, immutable, libc::EPERM, true)),
    }
}

/// 0, an errno, or `UNKNOWN`.
fn ask(slots: usize, immutable: bool) -> i32 {
    let errno = || io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL);
    let flags = if immutable { FLAG_IMMUTABLE } else { 0 };
    // SAFETY: both take numbers.
    unsafe {
        match libc::prctl(PR_FUTEX_HASH, GET_SLOTS, 0u64, 0u64, 0u64) {
            0.. => {}
            _ if errno() == libc::EINVAL => return UNKNOWN,
            _ => return errno(),
        }
        if libc::prctl(PR_FUTEX_HASH, SET_SLOTS, slots as u64, flags, 0u64) == 0 { 0 } else { errno() }
    }
}
