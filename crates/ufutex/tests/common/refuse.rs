//! System calls that fail in one thread.

/// Makes a system call fail with `errno` in the calling thread, until the thread ends. Returns the reason if that is not
/// possible.
pub fn refuse(number: libc::c_long, errno: i32) -> Result<(), String> {
    // From `linux/bpf_common.h`: load the word at `k`; jump by `jt` or `jf` after a comparison with `k`; return `k`.
    const LOAD: u16 = 0x20;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut steps = [
        step(LOAD, 0, 0, 0), // the number of the call
        step(JUMP_IF_EQUAL, 0, 1, number as u32),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | errno as u32),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // SAFETY: the filter is valid for the read, and changes the result of one call in this thread alone.
    let result = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter)
    };
    if result == 0 { Ok(()) } else { Err(format!("seccomp(2): {}", std::io::Error::last_os_error())) }
}
