//! The kernel's own table of private futexes: prctl(PR_FUTEX_HASH), and the message if the kernel refuses it.
//!
//! The command tries the call before the program starts. The library then makes it in the program, because the setting
//! is the process's own: execve(2) ends it, and the child of fork(2) does not inherit it.

use alloc::format;
use alloc::string::String;

/// prctl(2)'s `PR_FUTEX_HASH`.
pub const PR_FUTEX_HASH: i32 = 78;
/// Sets the number of slots.
pub const SET_SLOTS: u64 = 1;
/// Returns the number of slots. 0 means that the process uses the global table.
pub const GET_SLOTS: u64 = 2;
/// Sets the number for good. Only Linux 6.16 has this flag.
pub const FLAG_IMMUTABLE: u64 = 1;

/// The message for a call that failed with `errno`: what was tried, the error, and what would be accepted. `knows` says
/// whether the kernel has [`GET_SLOTS`].
///
/// ```
/// let line = ufutex_program::slots::refusal(512, true, 22, true);
/// assert!(line.starts_with("--slots 512 --immutable: prctl(PR_FUTEX_HASH, PR_FUTEX_HASH_SET_SLOTS, 512, 1) fails with EINVAL"));
/// ```
#[must_use]
pub fn refusal(slots: usize, immutable: bool, errno: i32, knows: bool) -> String {
    let (option, flags) = if immutable { (" --immutable", FLAG_IMMUTABLE) } else { ("", 0) };
    let name = name(errno);
    let accepted = match errno {
        _ if !knows => "a kernel that has it: Linux 6.16 or later, with CONFIG_FUTEX_PRIVATE_HASH",
        EINVAL if immutable => "without --immutable, which Linux 6.16 alone has",
        EINVAL => "another number of slots",
        ENOMEM => "fewer slots",
        EBUSY => "where no number of slots was set for good before",
        EPERM | EACCES => "where no seccomp filter forbids it, as those of containers may",
        _ => "without --kernel",
    };
    format!(
        "--slots {slots}{option}: prctl(PR_FUTEX_HASH, PR_FUTEX_HASH_SET_SLOTS, {slots}, {flags}) fails with {name}; \
         accepted: {accepted}"
    )
}

const EPERM: i32 = 1;
const ENOMEM: i32 = 12;
const EACCES: i32 = 13;
const EBUSY: i32 = 16;
const EINVAL: i32 = 22;
const ENOSYS: i32 = 38;

fn name(errno: i32) -> String {
    match errno {
        EPERM => "EPERM".into(),
        ENOMEM => "ENOMEM".into(),
        EACCES => "EACCES".into(),
        EBUSY => "EBUSY".into(),
        EINVAL => "EINVAL".into(),
        ENOSYS => "ENOSYS".into(),
        errno => format!("error {errno}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_answer_of_the_kernel_says_what_would_be_accepted_in_one_line() {
        for (immutable, errno, knows, accepted) in [
            (false, EINVAL, false, "Linux 6.16 or later, with CONFIG_FUTEX_PRIVATE_HASH"),
            (true, EINVAL, false, "Linux 6.16 or later, with CONFIG_FUTEX_PRIVATE_HASH"),
            (true, EINVAL, true, "without --immutable, which Linux 6.16 alone has"),
            (false, EINVAL, true, "another number of slots"),
            (false, ENOMEM, true, "fewer slots"),
            (false, EBUSY, true, "where no number of slots was set for good before"),
            (false, EPERM, true, "where no seccomp filter forbids it, as those of containers may"),
            (false, ENOSYS, true, "without --kernel"),
            (false, 99, true, "without --kernel"),
        ] {
            let line = refusal(64, immutable, errno, knows);
            assert!(line.ends_with(&format!("; accepted: {accepted}")) || !knows && line.contains(accepted), "{line}");
            assert!(line.lines().count() == 1 && line.contains(&name(errno)), "{line}");
            assert_eq!(line.contains("SET_SLOTS, 64, 1)"), immutable, "{line}");
        }
    }
}
