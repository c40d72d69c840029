//! System calls of the host, and helpers around them: clocks, signals, real-time priorities.

use std::io;
use std::sync::Once;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{AcqRel, Acquire};
use std::time::Duration;

use super::asleep::{thread_id, until};

/// Makes a system call and returns the kernel's result, which is `-errno` for a failure. It uses the instruction
/// itself, because a preloaded library that redirects futexes may replace `syscall` of the C library.
///
/// # Safety
/// What the call does must be sound in this process.
#[cfg(target_arch = "x86_64")]
pub unsafe fn syscall(number: libc::c_long, args: [u64; 6]) -> isize {
    let result: isize;
    // SAFETY: the kernel preserves every register but rax, rcx and r11. The caller guarantees that the call is sound.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") args[0], in("rsi") args[1], in("rdx") args[2], in("r10") args[3], in("r8") args[4], in("r9") args[5],
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// Makes a system call through the C library, on architectures without an assembly version here.
///
/// # Safety
/// What the call does must be sound in this process.
#[cfg(not(target_arch = "x86_64"))]
pub unsafe fn syscall(number: libc::c_long, args: [u64; 6]) -> isize {
    let [a, b, c, d, e, f] = args.map(|register| register as usize);
    // SAFETY: the caller guarantees that the call is sound.
    match unsafe { libc::syscall(number, a, b, c, d, e, f) } {
        -1 => -(io::Error::last_os_error().raw_os_error().unwrap_or(0) as isize),
        result => result as isize,
    }
}

/// A pointer as an argument of a system call.
pub fn pointer<T: ?Sized>(to: *const T) -> u64 {
    to.expose_provenance() as u64
}

/// Fails the test, naming `call`, unless the result is that of a success.
#[track_caller]
pub fn succeeded(call: &str, result: isize) -> isize {
    assert!(result >= 0, "{call}: {}", io::Error::from_raw_os_error(-result as i32));
    result
}

/// The time on a clock.
pub fn now(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time is writable.
    assert_eq!(unsafe { libc::clock_gettime(clock, &mut time) }, 0, "clock_gettime({clock})");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Schedules a thread with `SCHED_FIFO` and this priority, or with `SCHED_OTHER` if the priority is 0. A TID of 0 means
/// the calling thread.
pub fn set_priority(tid: i32, priority: u8) -> io::Result<()> {
    let param = libc::sched_param { sched_priority: priority.into() };
    let policy = if priority == 0 { libc::SCHED_OTHER } else { libc::SCHED_FIFO };
    // SAFETY: `param` is valid for the read.
    if unsafe { libc::sched_setscheduler(tid, policy, &param) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The reason why threads cannot have real-time priorities on this host, `None` if they can.
pub fn lacks_priorities() -> Option<String> {
    let probe = std::thread::spawn(|| set_priority(0, 1));
    let error = probe.join().expect("the probe does not panic").err()?;
    Some(format!("sched_setscheduler(SCHED_FIFO) is not permitted here: {error}"))
}

/// Sets the timer slack of this thread, which Linux adds to timeouts, from 50 us to 1 ns.
pub fn timeouts_without_slack() {
    // SAFETY: touches no memory.
    let result = unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1u64, 0u64, 0u64, 0u64) };
    assert_eq!(result, 0, "PR_SET_TIMERSLACK");
}

/// A signal whose handler is installed without `SA_RESTART`.
pub const PLAIN: libc::c_int = libc::SIGUSR1;
/// A signal whose handler is installed with `SA_RESTART`.
pub const RESTARTING: libc::c_int = libc::SIGUSR2;

/// The number of signals that each thread has handled, by its TID.
static HANDLED: [AtomicUsize; 1 << 16] = [const { AtomicUsize::new(0) }; 1 << 16];

fn handled(tid: i32) -> &'static AtomicUsize {
    &HANDLED[tid as usize % HANDLED.len()]
}

extern "C" fn count(_signal: libc::c_int) {
    handled(thread_id()).fetch_add(1, AcqRel);
}

/// Installs handlers for [`PLAIN`] and [`RESTARTING`].
pub fn set_handlers() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for (signal, flags) in [(PLAIN, 0), (RESTARTING, libc::SA_RESTART)] {
            // SAFETY: zero is a valid sigaction that blocks nothing; the handler only adds to an atomic.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = count as extern "C" fn(libc::c_int) as usize;
                action.sa_flags = flags;
                assert_eq!(libc::sigaction(signal, &action, std::ptr::null_mut()), 0);
            }
        }
    });
}

/// Sends a signal to a thread of this process.
pub fn kill(tid: i32, signal: libc::c_int) {
    // SAFETY: a signal to a thread of this process, for which a handler is installed.
    let result = unsafe { syscall(libc::SYS_tgkill, [std::process::id().into(), tid as u64, signal as u64, 0, 0, 0]) };
    succeeded("tgkill", result);
}

/// Sends [`PLAIN`] or [`RESTARTING`] to a thread of this process, and returns when its handler has run.
pub fn interrupt(tid: i32, signal: libc::c_int) {
    let before = handled(tid).load(Acquire);
    kill(tid, signal);
    until("the signal is handled", || handled(tid).load(Acquire) != before);
}
