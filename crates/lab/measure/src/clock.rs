//! Clocks: the CPU's counter, for time stamps between operations of a few nanoseconds, and a thread's CPU time.

use std::time::{Duration, Instant};

/// Reads the time stamp counter. Where Linux uses it as a clock source, it has the same rate on every CPU.
#[inline]
#[cfg(target_arch = "x86_64")]
pub fn ticks() -> u64 {
    // SAFETY: every x86-64 CPU has the instruction. PR_SET_TSC and strict seccomp may forbid it.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Reads the CPU's virtual counter.
#[inline]
#[cfg(target_arch = "aarch64")]
pub fn ticks() -> u64 {
    let ticks;
    // SAFETY: Linux lets user mode read the virtual counter, and the read has no side effects.
    unsafe { core::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack)) };
    ticks
}

/// Nanoseconds, for architectures whose counter is not supported here.
#[inline]
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub fn ticks() -> u64 {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// Nanoseconds in a tick, measured against the system's clock for 20 ms.
pub fn nanoseconds_per_tick() -> f64 {
    let (start, first) = (Instant::now(), ticks());
    std::thread::sleep(Duration::from_millis(20));
    let (elapsed, last) = (start.elapsed(), ticks());
    elapsed.as_nanos() as f64 / last.wrapping_sub(first) as f64
}

/// The CPU time of the calling thread.
pub fn thread_cpu_time() -> Duration {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// The monotonic clock, which is the same in all processes.
pub fn monotonic() -> Duration {
    read(libc::CLOCK_MONOTONIC)
}

fn read(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec, to `time`. Both clocks exist on every Linux.
    unsafe { libc::clock_gettime(clock, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
