//! `--kernel`: checks in a child process whether the kernel accepts this many slots.

use std::io;
use ufutex_program::slots::{FLAG_IMMUTABLE, GET_SLOTS, PR_FUTEX_HASH, SET_SLOTS, refusal};

/// The child's exit status if the kernel does not have the call. Otherwise the status is 0 or an errno.
const UNKNOWN: i32 = 255;

/// Whether the kernel accepts the slots. The error is the rest of a line after `--kernel`.
pub fn accepts(slots: usize, immutable: bool) -> Result<(), String> {
    // SAFETY: the child only makes system calls and exits.
    let child = unsafe { libc::fork() };
    match child {
        // SAFETY: ends the child without running this process's exit handlers.
        0 => unsafe { libc::_exit(try_slots(slots, immutable)) },
        1.. => {}
        _ => return Err(format!("cannot start a process to test it: {}", io::Error::last_os_error())),
    }
    let mut status = 0;
    // SAFETY: waits for our own child and stores its status.
    while unsafe { libc::waitpid(child, &raw mut status, 0) } < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(format!("the test process is lost: {error}"));
        }
    }
    match libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status)) {
        Some(0) => Ok(()),
        Some(UNKNOWN) => Err(refusal(slots, immutable, libc::EINVAL, false)),
        Some(errno) => Err(refusal(slots, immutable, errno, true)),
        // A signal ended the child: a seccomp filter that kills.
        None => Err(refusal(slots, immutable, libc::EPERM, true)),
    }
}

/// Returns 0, an errno, or `UNKNOWN`.
fn try_slots(slots: usize, immutable: bool) -> i32 {
    let errno = || io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL);
    let flags = if immutable { FLAG_IMMUTABLE } else { 0 };
    // SAFETY: both calls take only numbers.
    unsafe {
        match libc::prctl(PR_FUTEX_HASH, GET_SLOTS, 0u64, 0u64, 0u64) {
            0.. => {}
            _ if errno() == libc::EINVAL => return UNKNOWN,
            _ => return errno(),
        }
        if libc::prctl(PR_FUTEX_HASH, SET_SLOTS, slots as u64, flags, 0u64) == 0 { 0 } else { errno() }
    }
}
