//! The seccomp filter of the guest: which of its calls the supervisor gets.

use libc::{BPF_ABS, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_JUMP, BPF_K, BPF_LD, BPF_RET, BPF_STMT, BPF_W, sock_filter};

use crate::region;

/// exit(2) of i386, which ends a thread.
pub const EXIT: u32 = 1;

/// Calls whose first argument is the address of a futex word: the supervisor gets those on words in the region.
const ON_WORDS: [u32; 4] = [240, 422, 454, 455];
/// The supervisor gets all calls by these numbers: futex_waitv, futex_requeue, set_robust_list, get_robust_list, exit.
///
/// `restart_syscall` is not among them. No signal interrupts a call that the supervisor has received, so the program
/// continues only calls of the kernel's.
const ALWAYS: [u32; 5] = [449, 456, 311, 312, EXIT];

/// `AUDIT_ARCH_I386`: `EM_386`, little-endian.
const I386: u32 = 0x4000_0003;

/// Offsets in `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCH: u32 = 4;
const FIRST_ARGUMENT: u32 = 16;

/// The instructions of the filter. Calls of other architectures are allowed: the guest's first `execve` is one.
pub fn instructions() -> Vec<sock_filter> {
    let is_at_least = |k, yes, no| jump(BPF_JGE, k, yes, no);
    let mut code = vec![load(ARCH), jump(BPF_JEQ, I386, 1, 0), result(libc::SECCOMP_RET_ALLOW), load(NUMBER)];
    // Behind the comparisons come an instruction that allows, and the four that look at the address.
    let comparisons = ON_WORDS.iter().map(|number| (number, 1)).chain(ALWAYS.iter().map(|number| (number, 4)));
    let count = (ON_WORDS.len() + ALWAYS.len()) as u8;
    code.extend(comparisons.zip(1..).map(|((&number, to), i)| jump(BPF_JEQ, number, count - i + to, 0)));
    code.push(result(libc::SECCOMP_RET_ALLOW));
    code.push(load(FIRST_ARGUMENT));
    code.push(is_at_least(region::BASE as u32, 0, 2));
    code.push(is_at_least(region::BASE as u32 + region::SIZE as u32, 1, 0));
    code.push(result(libc::SECCOMP_RET_USER_NOTIF));
    code.push(result(libc::SECCOMP_RET_ALLOW));
    code
}

fn load(offset: u32) -> sock_filter {
    // SAFETY: it makes a struct of its arguments.
    unsafe { BPF_STMT((BPF_LD | BPF_W | BPF_ABS) as u16, offset) }
}

fn jump(comparison: u32, k: u32, yes: u8, no: u8) -> sock_filter {
    // SAFETY: it makes a struct of its arguments.
    unsafe { BPF_JUMP((BPF_JMP | comparison | BPF_K) as u16, k, yes, no) }
}

fn result(action: u32) -> sock_filter {
    // SAFETY: it makes a struct of its arguments.
    unsafe { BPF_STMT((BPF_RET | BPF_K) as u16, action) }
}
