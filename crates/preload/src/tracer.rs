//! Hides the traps of `--trap` from debuggers. Each trapped system call of a traced program would stop the program with
//! SIGSYS and report that to its tracer, which must not see it. The tracer has this library too. There:
//!
//! - The `wait` functions resume a thread that has stopped because of our filter, with the request by which the tracer
//!   last resumed it, and deliver the signal to it.
//! - A child of vfork(2) becomes traced only at its execve(2). Until then its parent sleeps, and could not resume it.
//!
//! Tracers that make these calls without libc's functions see the stops.

use core::arch::naked_asm;
use core::ffi::{c_int, c_long, c_void};
use core::mem::offset_of;
use core::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use crate::entry::fail;
use crate::filter;
use crate::memory;
use crate::process::process;
use crate::raw;
use crate::real::{REAL, Real};
use crate::trap;

const TRACE_ME: c_int = 0;
const SINGLE_BLOCK: c_int = 33;
/// The requests that resume a stopped thread.
const RESUMES: [c_int; 6] = [
    libc::PTRACE_CONT as c_int,
    libc::PTRACE_SINGLESTEP as c_int,
    libc::PTRACE_SYSCALL as c_int,
    libc::PTRACE_SYSEMU as c_int,
    libc::PTRACE_SYSEMU_SINGLESTEP as c_int,
    SINGLE_BLOCK,
];

/// The PID of the child of vfork(2) that becomes traced at its execve(2), or 0. The child sets it in the
/// memory that it shares with its parent.
static TRACED_LATER: AtomicI32 = AtomicI32::new(0);

/// The request by which each traced thread was last resumed: the thread's number in the upper half, the request in the
/// lower half. A thread for which there is no free entry is resumed by PTRACE_CONT.
static RESUMED: [AtomicU64; 4096] = [const { AtomicU64::new(0) }; 4096];

/// The entry of a thread, or a free one for it.
fn place(thread: i32) -> Option<&'static AtomicU64> {
    let start = thread as usize;
    let places = (0..64).map(|step| &RESUMED[(start + step) % RESUMED.len()]);
    let mut free = None;
    for place in places {
        match place.load(Ordering::Relaxed) {
            0 => free = free.or(Some(place)),
            entry if entry >> 32 == thread as u64 => return Some(place),
            _ => {}
        }
    }
    free
}

fn note_resumed(thread: i32, request: c_int) {
    if let Some(place) = place(thread) {
        place.store((thread as u64) << 32 | request as u64, Ordering::Relaxed);
    }
}

fn forget(thread: i32) {
    if let Some(place) = place(thread) {
        place.store(0, Ordering::Relaxed);
    }
}

fn resumed_by(thread: i32) -> c_int {
    match place(thread).map_or(0, |place| place.load(Ordering::Relaxed)) as u32 {
        0 => libc::PTRACE_CONT as c_int,
        request => request as c_int,
    }
}

/// `ptrace(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ptrace(
    request: c_int,
    thread: libc::pid_t,
    address: *mut c_void,
    data: *mut c_void,
) -> c_long {
    if trap::is_on() {
        if request == TRACE_ME && process().is_some_and(crate::process::Process::is_borrowed) {
            TRACED_LATER.store(raw::pid(), Ordering::Relaxed);
            return 0;
        }
        if RESUMES.contains(&request) {
            note_resumed(thread, request);
        }
    }
    // SAFETY: libc's own, and of that type.
    let real: unsafe extern "C" fn(c_int, libc::pid_t, *mut c_void, *mut c_void) -> c_long =
        unsafe { core::mem::transmute(REAL.ptrace.load(Ordering::Relaxed)) };
    // SAFETY: as the program calls it.
    unsafe { real(request, thread, address, data) }
}

/// Called when the calling process is about to execute a program: does the `ptrace(PTRACE_TRACEME)` that was deferred.
pub fn before_exec() {
    let later = TRACED_LATER.load(Ordering::Relaxed);
    if later != 0 && later == raw::pid() {
        TRACED_LATER.store(0, Ordering::Relaxed);
        // SAFETY: makes the parent trace this process, as the process has asked.
        unsafe { raw::own(libc::SYS_ptrace, [TRACE_ME as u64, 0, 0, 0]) };
    }
}

/// If a thread has stopped because of our filter, resumes it. Returns whether it did.
fn passes_on(thread: libc::pid_t, status: c_int) -> bool {
    const STOPPED_BY_SIGSYS: c_int = libc::SIGSYS << 8 | 0x7f;
    if status != STOPPED_BY_SIGSYS {
        if !libc::WIFSTOPPED(status) {
            forget(thread);
        }
        return false;
    }
    let mut info = core::mem::MaybeUninit::<libc::siginfo_t>::zeroed();
    // SAFETY: stores the signal's information in `info`.
    let told = unsafe {
        raw::own(libc::SYS_ptrace, [libc::PTRACE_GETSIGINFO.into(), thread as u64, 0, info.as_mut_ptr() as u64])
    };
    // SAFETY: `info` is all zeroes, or has been filled in.
    let info = unsafe { info.assume_init() };
    if told < 0 || info.si_code != trap::SYS_SECCOMP || info.si_errno != i32::from(filter::TAG) {
        return false;
    }
    // SAFETY: resumes a thread of another process, as its tracer resumed it before.
    let resumed =
        unsafe { raw::own(libc::SYS_ptrace, [resumed_by(thread) as u64, thread as u64, 0, libc::SIGSYS as u64]) };
    resumed >= 0
}

/// `wait4(2)` under a trap. A process does not know that it traces: a child may have asked for it (PTRACE_TRACEME).
unsafe extern "C-unwind" fn wait_traced(
    process: libc::pid_t,
    status: *mut c_int,
    options: c_int,
    usage: *mut libc::rusage,
) -> libc::pid_t {
    // SAFETY: libc's own, and of that type.
    let real: unsafe extern "C-unwind" fn(libc::pid_t, *mut c_int, c_int, *mut libc::rusage) -> libc::pid_t =
        unsafe { core::mem::transmute(REAL.wait4.load(Ordering::Relaxed)) };
    let mut ours = 0;
    loop {
        // SAFETY: as the program calls it, with a status of our own.
        let waited = unsafe { real(process, &raw mut ours, options, usage) };
        if waited > 0 && passes_on(waited, ours) {
            continue;
        }
        if waited > 0 && !status.is_null() && memory::write(status.addr() as u64, &ours).is_err() {
            return fail(-(libc::EFAULT as isize));
        }
        return waited;
    }
}

/// `waitid(2)` under a trap.
unsafe extern "C-unwind" fn wait_for_traced(
    kind: libc::idtype_t,
    id: libc::id_t,
    info: *mut libc::siginfo_t,
    options: c_int,
) -> c_int {
    // SAFETY: libc's own, and of that type.
    let real: unsafe extern "C-unwind" fn(libc::idtype_t, libc::id_t, *mut libc::siginfo_t, c_int) -> c_int =
        unsafe { core::mem::transmute(REAL.waitid.load(Ordering::Relaxed)) };
    let mut ours = core::mem::MaybeUninit::<libc::siginfo_t>::zeroed();
    let info = if info.is_null() { ours.as_mut_ptr() } else { info };
    loop {
        // SAFETY: as the program calls it, or with a place of our own.
        let waited = unsafe { real(kind, id, info, options) };
        if waited != 0 {
            return waited;
        }
        // SAFETY: the kernel has stored there what it reports. With `WNOHANG` the number may be 0.
        let (thread, code, status) = unsafe { ((*info).si_pid(), (*info).si_code, (*info).si_status()) };
        // The status that the other functions would return, as far as it matters here: of a stop, or of an end.
        let is_stopped = matches!(code, libc::CLD_TRAPPED | libc::CLD_STOPPED);
        let status = if is_stopped { status << 8 | 0x7f } else { 0 };
        if thread <= 0 || !passes_on(thread, status) {
            return 0;
        }
    }
}

/// `waitid(2)`.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn waitid() -> c_int {
    naked_asm!(
        "cmp byte ptr [rip + {on}], 0",
        "jne {wait_for_traced}",
        "jmp qword ptr [rip + {real} + {offset}]",
        on = sym trap::ON,
        real = sym REAL,
        offset = const offset_of!(Real, waitid),
        wait_for_traced = sym wait_for_traced,
    )
}

macro_rules! wait_function {
    ($name:ident, $what:literal, $($shuffle:literal,)*) => {
        #[doc = $what]
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() -> libc::pid_t {
            naked_asm!(
                "cmp byte ptr [rip + {on}], 0",
                "jne 2f",
                "jmp qword ptr [rip + {real} + {offset}]",
                "2:",
                $($shuffle,)*
                "jmp {wait_traced}",
                on = sym trap::ON,
                real = sym REAL,
                offset = const offset_of!(Real, $name),
                wait_traced = sym wait_traced,
            )
        }
    };
}

wait_function!(wait4, "`wait4(2)`.",);
wait_function!(waitpid, "`waitpid(2)`.", "xor ecx, ecx",);
wait_function!(wait3, "`wait3(2)`.", "mov rcx, rdx", "mov edx, esi", "mov rsi, rdi", "mov edi, -1",);
wait_function!(wait, "`wait(2)`.", "mov rsi, rdi", "mov edi, -1", "xor edx, edx", "xor ecx, ecx",);
