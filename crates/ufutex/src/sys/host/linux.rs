//! Linux: futex(2) itself, by system calls made directly.

use core::num::NonZeroU32;
use core::sync::atomic::AtomicU32;
use core::time::Duration;

use super::super::clock::{Clock, Deadline};
use super::super::park::ParkEnd;
use super::super::syscall::syscall5;

/// Whether a thread can sleep with bits of its own, and a wake choose by them.
pub const WAKES_BY_BITS: bool = true;

/// Sleeps while `word` is `expected`, until `deadline` at the latest.
pub fn park(word: &AtomicU32, expected: u32, deadline: Option<&Deadline>) -> ParkEnd {
    park_with(word, expected, deadline, NonZeroU32::MAX)
}

/// As [`park`]. A wake by [`unpark_bits`] concerns the thread if it has one of these bits.
pub fn park_with(word: &AtomicU32, expected: u32, deadline: Option<&Deadline>, bits: NonZeroU32) -> ParkEnd {
    let mut op = libc::FUTEX_WAIT_BITSET | libc::FUTEX_PRIVATE_FLAG;
    let mut until = core::ptr::null();
    let time;
    if let Some(deadline) = deadline {
        if deadline.clock == Clock::Realtime {
            op |= libc::FUTEX_CLOCK_REALTIME;
        }
        time = timespec(deadline.at);
        until = &raw const time;
    }
    // SAFETY: the word and `time` outlive the call; futex(2) writes to neither.
    let result = unsafe {
        syscall5(
            libc::SYS_futex,
            word.as_ptr().expose_provenance(),
            op as usize,
            expected as usize,
            until.expose_provenance(),
            bits.get(),
        )
    };
    if result == -(libc::ETIMEDOUT as isize) { ParkEnd::TimedOut } else { ParkEnd::Awake }
}

/// Wakes up to `count` threads that sleep on a word, by its address, which need not be mapped any more: futex(2) never
/// reads the word of a private wake. If another word is at the address by now, its sleeper wakes up for no reason.
pub fn unpark(word: *const AtomicU32, count: usize) -> usize {
    wake(libc::FUTEX_WAKE, word, count, NonZeroU32::MAX).unwrap_or(0)
}

/// As [`unpark`], for the threads whose bits overlap with these. If a filter of the process forbids the operation, it
/// wakes all.
pub fn unpark_bits(word: *const AtomicU32, bits: NonZeroU32) {
    // With this limit the kernel stops at the last of them, and does not look through the other sleepers of its bucket.
    let count = bits.get().count_ones() as usize;
    if wake(libc::FUTEX_WAKE_BITSET, word, count, bits).is_none() {
        unpark(word, usize::MAX);
    }
}

/// Returns how many threads were woken; `None` if the call has failed.
fn wake(op: libc::c_int, word: *const AtomicU32, count: usize, bits: NonZeroU32) -> Option<usize> {
    let op = op | libc::FUTEX_PRIVATE_FLAG;
    // To the kernel `count` is an `int`, and -1 wakes one.
    let count = count.min(i32::MAX as usize);
    // SAFETY: a private wake touches no memory of ours.
    let woken = unsafe { syscall5(libc::SYS_futex, word.expose_provenance(), op as usize, count, 0, bits.get()) };
    usize::try_from(woken).ok()
}

/// Gives up the CPU to another thread.
pub fn yield_now() {
    // SAFETY: sched_yield takes nothing and changes nothing.
    let _always_0 = unsafe { syscall5(libc::SYS_sched_yield, 0, 0, 0, 0, 0) };
}

/// Sleeps for `length`. Does not use libc's sleep, which is a cancellation point of the thread.
pub fn sleep(length: Duration) -> bool {
    let length = timespec(length);
    // SAFETY: `length` outlives the call. The kernel does not write the remaining time, because no address is given for
    // it.
    unsafe { syscall5(libc::SYS_nanosleep, (&raw const length).expose_provenance(), 0, 0, 0, 0) };
    true
}

/// The CPUs that this thread may run on. Unlike the standard library it reads no cgroups, because it must not allocate.
/// Their quotas limit CPU time, not the CPUs that run at the same time.
pub fn online() -> usize {
    // For a kernel that is built for more CPUs the call fails.
    let mut mask = [0u64; 8192 / 64];
    // SAFETY: writes at most the length that is given.
    let is_known = unsafe { libc::sched_getaffinity(0, size_of_val(&mask), mask.as_mut_ptr().cast()) } == 0;
    let cpus = if is_known {
        mask.iter().map(|word| word.count_ones() as usize).sum()
    } else {
        // SAFETY: returns a number, or -1.
        usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).unwrap_or(1)
    };
    cpus.max(1)
}

fn timespec(time: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: libc::time_t::try_from(time.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: time.subsec_nanos() as libc::c_long,
    }
}
