//! Clocks: the cheapest one of the CPU, for time stamps between operations of a few nanoseconds, and a thread's own.

use std::time::{Duration, Instant};

/// The CPU's counter; it runs at one rate on every CPU of the machines that Linux trusts it on.
#[inline]
#[cfg(target_arch = "x86_64")]
pub fn ticks() -> u64 {
    // SAFETY: every x86-64 CPU has the instruction; user mode may use it unless a seccomp mode of old forbids it.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// The CPU's virtual counter.
#[inline]
#[cfg(target_arch = "aarch64")]
pub fn ticks() -> u64 {
    let ticks;
    // SAFETY: Linux lets user mode read the virtual counter; it has no side effect.
    unsafe { core::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack)) };
    ticks
}

/// Nanoseconds where the CPU's counter is not known to us.
#[inline]
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub fn ticks() -> u64 {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// How long a tick is, in nanoseconds, by the system's clock.
pub fn nanoseconds_per_tick() -> f64 {
    let (start, first) = (Instant::now(), ticks());
    std::thread::sleep(Duration::from_millis(20));
    let (elapsed, last) = (start.elapsed(), ticks());
    elapsed.as_nanos() as f64 / last.wrapping_sub(first) as f64
}

/// For how long the calling thread has had a CPU.
pub fn thread_cpu_time() -> Duration {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// The clock that all processes have in common.
pub fn monotonic() -> Duration {
    read(libc::CLOCK_MONOTONIC)
}

fn read(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec, to `time`; both clocks exist on every Linux.
    unsafe { libc::clock_gettime(clock, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
