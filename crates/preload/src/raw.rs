//! System calls as instructions of our own. libc's functions are the ones that this library replaces, and they leave
//! their errors in thread-local storage, which a thread may not have.

use core::arch::asm;
use core::ops::Range;

/// Marks a call as ours where the filter of `--trap` would stop a program's: see `mark.rs`.
pub const COOKIE: u64 = ufutex::syscall::OWN_CALL;

/// Issues a system call; a negative result is `-errno`.
///
/// # Safety
/// The effect of the call must be sound in this process, and its arguments must be valid for it.
#[inline]
pub unsafe fn syscall6(number: i64, [a, b, c, d, e, f]: [u64; 6]) -> isize {
    let result: isize;
    // SAFETY: the kernel preserves every register but rax, rcx and r11; the caller answers for the effect of the call.
    unsafe {
        asm!(
            "syscall",
            // The kernel leaves the marks in these registers, and the program's next call may not set them.
            "xor r8d, r8d",
            "xor r9d, r9d",
            inlateout("rax") number as isize => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, inlateout("r8") e => _, inlateout("r9") f => _,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// Issues a system call with up to five arguments, marked as ours.
///
/// # Safety
/// As for [`syscall6`].
#[inline]
pub unsafe fn own<const N: usize>(number: i64, args: [u64; N]) -> isize {
    const { assert!(N <= 5, "the sixth argument is the mark") };
    let mut six = [0, 0, 0, 0, 0, COOKIE];
    six[..N].copy_from_slice(&args);
    // SAFETY: the caller guarantees it.
    unsafe { syscall6(number, six) }
}

/// The calling process's PID.
pub fn pid() -> i32 {
    // SAFETY: takes no arguments and changes no memory.
    unsafe { own(libc::SYS_getpid, []) as i32 }
}

/// The calling thread's TID.
pub fn tid() -> i32 {
    // SAFETY: takes no arguments and changes no memory.
    unsafe { own(libc::SYS_gettid, []) as i32 }
}

/// Maps `bytes` bytes of new, zeroed memory. `None` if there is none.
pub fn map(bytes: usize) -> Option<u64> {
    let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: new memory, at an address that the kernel chooses.
    let at = unsafe { syscall6(libc::SYS_mmap, [0, bytes as u64, access as u64, flags as u64, u64::MAX, 0]) };
    (!(-4095..0).contains(&at)).then_some(at as u64)
}

/// Unmaps memory.
///
/// # Safety
/// It was mapped by the caller, and nothing refers to it any more.
pub unsafe fn unmap(at: u64, len: u64) {
    // SAFETY: the caller guarantees it.
    unsafe { own(libc::SYS_munmap, [at, len]) };
}

/// Sets the protection of pages. Returns whether the kernel has done it.
///
/// # Safety
/// No thread accesses the pages in a way that the protection forbids.
pub unsafe fn protect(pages: &Range<u64>, protection: i32) -> bool {
    // SAFETY: the caller guarantees it.
    unsafe { own(libc::SYS_mprotect, [pages.start, pages.end - pages.start, protection as u64]) == 0 }
}

/// Writes all of `text`, or as much as can be written.
pub fn write_all(fd: i32, mut text: &[u8]) {
    while !text.is_empty() {
        // SAFETY: `text` is valid for the read.
        let written = unsafe { own(libc::SYS_write, [fd as u64, text.as_ptr() as u64, text.len() as u64]) };
        match usize::try_from(written) {
            Ok(0) => return,
            Ok(n) => text = &text[n..],
            Err(_) if written == -(libc::EINTR as isize) => {}
            Err(_) => return,
        }
    }
}

/// Prints on standard error why the program cannot go on, and ends it with the status that a shell uses for a command
/// that it cannot run.
pub fn die(why: &[&str]) -> ! {
    write_all(2, b"ufutex: ");
    for part in why {
        write_all(2, part.as_bytes());
    }
    write_all(2, b"\n");
    loop {
        // SAFETY: does not return.
        unsafe { own(libc::SYS_exit_group, [126]) };
    }
}
