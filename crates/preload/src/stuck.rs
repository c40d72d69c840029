//! Interrupts threads that wait for a page with a bucket locked.
//!
//! A page may be served by the program itself (userfaultfd(2)), by a thread that needs the same bucket. A kernel reads a
//! word so that a missing page is an error while a lock is held. A program's thread cannot: it waits in its access to the
//! word. But a signal ends that wait. So a thread that has waited for a bucket for a few milliseconds looks for such
//! threads, and sends each a signal whose handler makes the access fail: see `memory.rs`. That costs nothing until then.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use core::time::Duration;
use std::io::Write;

use ufutex::platform::{Clock, Deadline, Platform};
use ufutex::timer::{Base, Clocks};

use crate::timers::{self, Host};
use crate::{file, memory, patch, raw, signals};

/// The threads of this process. They sleep as on the host. A contender for a bucket that has slept for long looks for
/// stuck threads.
pub struct Threads;

/// The shortest sleep after which a contender looks. A contender first sleeps for a millisecond, and then for twice as
/// long each time.
const LONG: u64 = 3_000_000;
/// Looking takes at most this fraction of the time.
const SHARE: u64 = 16;

impl Platform for Threads {
    fn park(word: &AtomicU32, expected: u32, deadline: Option<Deadline>) {
        let mut op = (libc::FUTEX_WAIT_BITSET | libc::FUTEX_PRIVATE_FLAG) as u64;
        let (mut until, mut is_long) = (libc::timespec { tv_sec: 0, tv_nsec: 0 }, false);
        if let Some(Deadline { clock, at }) = deadline {
            if clock == Clock::Realtime {
                op |= libc::FUTEX_CLOCK_REALTIME as u64;
            }
            until.tv_sec = libc::time_t::try_from(at.as_secs()).unwrap_or(libc::time_t::MAX);
            until.tv_nsec = at.subsec_nanos().into();
            is_long = at.saturating_sub(Self::now(clock)) >= Duration::from_nanos(LONG);
        }
        let until = if deadline.is_some() { (&raw const until) as u64 } else { 0 };
        let args = [word.as_ptr() as u64, op, expected.into(), until, raw::COOKIE, u32::MAX.into()];
        // SAFETY: reads the word and the time.
        let result = unsafe { raw::syscall6(libc::SYS_futex, args) };
        if is_long && result == -(libc::ETIMEDOUT as isize) {
            interrupt_stuck();
        }
    }

    fn unpark(word: *const AtomicU32, count: usize) -> usize {
        let op = (libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG) as u64;
        let args = [word.expose_provenance() as u64, op, count.min(i32::MAX as usize) as u64, 0, raw::COOKIE, 0];
        // SAFETY: a private wake touches no memory.
        usize::try_from(unsafe { raw::syscall6(libc::SYS_futex, args) }).unwrap_or(0)
    }

    /// They are threads of the host.
    const MAY_SPIN: bool = true;

    fn now(clock: Clock) -> Duration {
        Host.now(match clock {
            Clock::Realtime => Base::Realtime,
            _ => Base::Monotonic,
        })
    }

    fn yield_now() {
        // SAFETY: takes no arguments and changes no memory.
        unsafe { raw::own(libc::SYS_sched_yield, []) };
    }
}

/// Interrupts the threads of the process that wait for a page in an access that may fail.
#[cold]
fn interrupt_stuck() {
    /// When a thread may look again. The greatest value while one is looking.
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let (began, next) = (timers::now(), NEXT.load(Ordering::Relaxed));
    // A filter of the program may end the process for what follows.
    if began < next
        || patch::is_filtered()
        || NEXT.compare_exchange(next, u64::MAX, Ordering::Relaxed, Ordering::Relaxed).is_err()
    {
        return;
    }
    let mut names = [0u8; 1024];
    file::each_entry(b"/proc/self/task\0", &mut names, |thread| {
        if let Some(thread) = file::number(thread)
            && place_in_fault(thread).is_some_and(|place| memory::interruption(place).is_some())
        {
            signals::interrupt(thread);
        }
        true
    });
    let now = timers::now();
    NEXT.store(now + SHARE * now.saturating_sub(began), Ordering::Relaxed);
}

/// The instruction at which a thread sleeps outside of a system call: in a page fault. See proc_pid_syscall(5).
fn place_in_fault(thread: i32) -> Option<u64> {
    let (mut path, mut text) = ([0u8; 40], [0u8; 128]);
    write!(&mut path[..], "/proc/self/task/{thread}/syscall\0").ok()?;
    let text = file::read(&path, &mut text)?.strip_prefix(b"-1 ")?;
    let place = core::str::from_utf8(text).ok()?.trim_end().rsplit(" 0x").next()?;
    u64::from_str_radix(place, 16).ok()
}
