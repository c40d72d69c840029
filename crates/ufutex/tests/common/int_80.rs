//! System calls of a 32-bit program, made by this one. The kernel decodes them as those of a 32-bit program, with the
//! same code.

/// Issues a system call as i386 code does.
///
/// # Safety
/// As for the system call.
pub unsafe fn int_80(number: u32, [a, b, c, d, e, f]: [u32; 6]) -> isize {
    let result: i32;
    // SAFETY: the kernel preserves all registers but eax; Linux before 4.17 clears r8 to r11. rbx and rbp, which the
    // compiler does not give away, are restored. The pushes need no red zone, since the assembly may use the stack.
    unsafe {
        std::arch::asm!(
            "push rbx", "push rbp",
            "mov ebx, {a:e}", "mov ebp, {f:e}",
            "int 0x80",
            "pop rbp", "pop rbx",
            a = in(reg) a, f = in(reg) f,
            inlateout("eax") number as i32 => result,
            in("ecx") b, in("edx") c, in("esi") d, in("edi") e,
            lateout("r8") _, lateout("r9") _, lateout("r10") _, lateout("r11") _,
        );
    }
    result as isize
}

/// Why the kernel cannot be asked, or `None`.
#[cfg(not(target_os = "linux"))]
pub fn lack() -> Option<&'static str> {
    Some("there is no Linux to run 32-bit programs")
}

/// Why the kernel cannot be asked, or `None`. If it runs no 32-bit programs, the instruction is a fault. So a child
/// process makes the first call.
#[cfg(target_os = "linux")]
pub fn lack() -> Option<&'static str> {
    use super::libc;

    const GETPID: u32 = 20;
    let mut status = 0;
    // SAFETY: the child makes a system call without arguments and ends. It runs no code of this process besides.
    let is_good = unsafe {
        let child = libc::fork();
        if child == 0 {
            let process = int_80(GETPID, [0; 6]);
            libc::_exit(i32::from(process <= 0));
        }
        child > 0 && libc::waitpid(child, &mut status, 0) == child && status == 0
    };
    (!is_good).then_some("the kernel runs no 32-bit programs")
}
