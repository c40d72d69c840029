//! Delivery of expired timers on the host: signals to this process, and counts in an eventfd.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use super::{Deliver, Expired, Notice, Timers};

/// Sends signals to this process and its threads, as the kernel's timers do, with `si_value`, `si_timerid` and `si_overrun`.
///
/// A signal counts as delivered when it is sent: an interval timer is armed again at once, and intervals that pass while the
/// signal is blocked send signals of their own (or none, below `SIGRTMIN`, if it is pending already). An embedder that sees
/// when a signal is delivered sends it with [`send`](Self::send) and takes the notice then.
#[derive(Clone, Copy, Default, Debug)]
pub struct Signals;

/// The `si_code` of timers, which older versions of `libc` do not have.
const SI_TIMER: i32 = -2;

const IS_64_BIT: bool = usize::BITS == 64;
/// Words that fill a [`TimerInfo`] up to a `siginfo_t`.
const REST: usize = if IS_64_BIT { 12 } else { 26 };

/// The kernel's `siginfo_t` of a timer. A 32-bit program gets only the lower half of the value.
#[repr(C)]
struct TimerInfo {
    signo: i32,
    errno: i32,
    code: i32,
    _pad: [i32; IS_64_BIT as usize],
    timer: i32,
    overrun: i32,
    value: usize,
    _rest: [usize; REST],
}

const _: () = assert!(size_of::<TimerInfo>() == size_of::<libc::siginfo_t>());

impl Signals {
    /// Sends the signal of `expired`. `false` if there is no such thread, or too many signals are pending.
    pub fn send(expired: &Expired) -> bool {
        let (signal, value, thread) = expired.notify.parts();
        if signal == 0 {
            return true;
        }
        let info = TimerInfo {
            signo: signal,
            errno: 0,
            code: SI_TIMER,
            _pad: [0; IS_64_BIT as usize],
            timer: expired.id,
            overrun: expired.overrun,
            value: value as usize,
            _rest: [0; REST],
        };
        // SAFETY: `info` is a `siginfo_t`, and outlives the call.
        let result = unsafe {
            let process = libc::getpid();
            match thread {
                None => libc::syscall(libc::SYS_rt_sigqueueinfo, process, signal, &raw const info),
                Some(thread) => libc::syscall(libc::SYS_rt_tgsigqueueinfo, process, thread, signal, &raw const info),
            }
        };
        result == 0
    }
}

impl Deliver for Signals {
    fn expired(&self, timers: &Timers, notice: Notice) {
        if let Some(expired) = timers.take(notice) {
            Self::send(&expired);
        }
    }

    fn has_thread(&self, thread: i32) -> bool {
        // SAFETY: signal 0 only checks whether the thread exists.
        thread > 0 && unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, 0) } == 0
    }
}

/// Adds the expiries of all timers to an eventfd, intervals that passed unnoticed included.
pub struct EventFd(OwnedFd);

impl EventFd {
    /// Delivers to `file`, which is an eventfd.
    #[must_use]
    pub fn new(file: OwnedFd) -> Self {
        Self(file)
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Deliver for EventFd {
    fn expired(&self, timers: &Timers, notice: Notice) {
        let Some(expired) = timers.take(notice) else { return };
        // The timer has expired even if the clock has been set back, which makes the overrun -1.
        let count = 1 + expired.overrun.max(0) as u64;
        // SAFETY: an eventfd takes eight bytes. A full one blocks, unless it is nonblocking.
        unsafe { libc::write(self.0.as_raw_fd(), (&raw const count).cast(), 8) };
    }
}
