//! System calls made directly. Calls through libc's `syscall` could be interposed: if a program's own futex calls are
//! redirected to this engine, the engine's calls must not be redirected as well.

/// The `uaddr2` of the engine's own calls of futex(2). The kernel ignores it when a thread waits or wakes. A seccomp
/// filter that hands a program's futex calls to the engine recognises the engine's calls by it and lets them through.
pub const OWN_CALL: u64 = u64::from_le_bytes(*b"ufutex\xf7\x0f");

/// Issues the system call `number`. Its arguments are `a` to `d`, then [`OWN_CALL`], then `bits`: the last two are the
/// second word and the bitset of futex(2). A negative result is `-errno`.
///
/// # Safety
/// The arguments must be valid for that system call, and its effect must be sound in this process. Under Miri the
/// provenance of pointers has been exposed.
#[inline]
pub unsafe fn syscall5(number: libc::c_long, a: usize, b: usize, c: usize, d: usize, bits: u32) -> isize {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        let result: isize;
        // SAFETY: the kernel preserves every register but rax, rcx and r11, and uses no stack of ours. The caller answers
        // for the effect of the call. r8 is futex(2)'s uaddr2: see `OWN_CALL`.
        unsafe {
            core::arch::asm!(
                "syscall",
                "xor r8d, r8d", // otherwise the program's next call would carry `OWN_CALL`
                inlateout("rax") number as isize => result,
                in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d,
                inlateout("r8") OWN_CALL => _, in("r9") bits as usize,
                lateout("rcx") _, lateout("r11") _,
                options(nostack),
            );
        }
        result
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    {
        let result: isize;
        // SAFETY: the kernel preserves every register but x0. The caller answers for the effect of the call.
        unsafe {
            core::arch::asm!(
                "svc 0",
                in("x8") number,
                inlateout("x0") a as isize => result,
                in("x1") b, in("x2") c, in("x3") d,
                in("x4") OWN_CALL, in("x5") bits as usize,
                options(nostack),
            );
        }
        result
    }
    #[cfg(any(not(any(target_arch = "x86_64", target_arch = "aarch64")), miri))]
    {
        // SAFETY: the caller guarantees what this function requires.
        let result = unsafe { libc_syscall(number, a, b, c, d, bits) };
        // SAFETY: errno of this thread may always be read.
        if result >= 0 { result as isize } else { -(unsafe { *libc::__errno_location() } as isize) }
    }
}

/// # Safety
/// As for [`syscall5`].
#[cfg(all(not(any(target_arch = "x86_64", target_arch = "aarch64")), not(miri)))]
unsafe fn libc_syscall(number: libc::c_long, a: usize, b: usize, c: usize, d: usize, bits: u32) -> libc::c_long {
    // SAFETY: the caller guarantees it.
    unsafe { libc::syscall(number, a, b, c, d, OWN_CALL as usize, bits as usize) }
}

/// Calls the functions of libc that Miri knows, with arguments of their C types, and without `OWN_CALL`.
///
/// # Safety
/// As for [`syscall5`].
#[cfg(miri)]
unsafe fn libc_syscall(number: libc::c_long, a: usize, b: usize, c: usize, d: usize, bits: u32) -> libc::c_long {
    use core::ptr::{null, null_mut, with_exposed_provenance as pointer};
    // SAFETY: the caller guarantees it.
    unsafe {
        match number {
            libc::SYS_futex => {
                let (word, time) = (pointer::<u32>(a), pointer::<libc::timespec>(d));
                libc::syscall(number, word, b as libc::c_int, c as u32, time, null::<u32>(), bits)
            }
            libc::SYS_sched_yield => libc::sched_yield().into(),
            libc::SYS_nanosleep => libc::nanosleep(pointer(a), null_mut()).into(),
            other => unreachable!("the engine does not call {other} under Miri"),
        }
    }
}
