//! When the loader preloads nothing because a program gains rights that its caller does not have: the kernel's
//! `AT_SECURE`.
//!
//! A set-user-ID-root file that root runs gains nothing, and neither does a file on a file system that is mounted
//! `nosuid`. If new privileges are forbidden (`no_new_privs`) the kernel would run the program without them. That is
//! not what the file's owner meant, so it is refused here.

use super::{File, Reason};
use core::mem::MaybeUninit;

#[inline(never)]
pub fn check(file: &File) -> Result<(), Reason> {
    let Some(status) = file.status() else { return Ok(()) };
    // SAFETY: these four always succeed and touch no memory.
    let (user, group, effective_user, effective_group) =
        unsafe { (libc::getuid(), libc::getgid(), libc::geteuid(), libc::getegid()) };
    let sets_user = status.st_mode & libc::S_ISUID != 0;
    // Without the group's right to execute, the bit used to mean mandatory locking.
    let sets_group = status.st_mode & (libc::S_ISGID | libc::S_IXGRP) == libc::S_ISGID | libc::S_IXGRP;
    let capable = user != 0 && has_capabilities(file);
    let heeded = (sets_user || sets_group || capable) && !on_nosuid(file);
    let (becomes_user, becomes_group) = (
        if heeded && sets_user { status.st_uid } else { effective_user },
        if heeded && sets_group { status.st_gid } else { effective_group },
    );
    // Linux 6.16 compares with the effective IDs, too.
    if becomes_user != user || becomes_user != effective_user {
        return Err(if becomes_user == effective_user { Reason::Process } else { Reason::SetUser });
    }
    if becomes_group != group || becomes_group != effective_group {
        return Err(if becomes_group == effective_group { Reason::Process } else { Reason::SetGroup });
    }
    if heeded && capable { Err(Reason::Capabilities) } else { Ok(()) }
}

fn has_capabilities(file: &File) -> bool {
    // SAFETY: a string; no room is given, so nothing is written.
    unsafe { libc::fgetxattr(file.descriptor, c"security.capability".as_ptr(), core::ptr::null_mut(), 0) > 0 }
}

#[inline(never)]
fn on_nosuid(file: &File) -> bool {
    let mut system = MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: room for the result, which a successful call has filled.
    unsafe {
        libc::fstatvfs(file.descriptor, system.as_mut_ptr()) == 0 && system.assume_init().f_flag & libc::ST_NOSUID != 0
    }
}
