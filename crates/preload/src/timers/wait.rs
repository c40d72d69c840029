//! sigtimedwait(2): a signal of a timer is handled as it is before a handler, when a thread waits for it.

use super::alarm::now;
use super::mail::arrive_at;
use crate::engine::Inside;
use crate::entry::fail;
use crate::gate::{self, Gate, Sleep};
use crate::memory;
use crate::raw::COOKIE;

/// sigtimedwait(2) for a thread that is inside.
pub fn sigtimedwait([set, info, timeout, size, ..]: [u64; 6], inside: &Inside) -> isize {
    let mut told = [0u64; 16];
    let told_at = (&raw mut told) as u64;
    let mut left = Left::of(timeout);
    loop {
        let timeout = left.argument(timeout);
        let args = [set, told_at, timeout, size, 0, COOKIE];
        // SAFETY: the mask is null or valid as long as `inside`.
        let sleep = unsafe { Sleep::new(inside.gate, inside.mask, libc::SYS_rt_sigtimedwait, args) };
        // SAFETY: the program's own call, with our own room for the information; our own gate and mask.
        let result = unsafe { gate::sleep(&sleep) };
        if result <= 0 {
            return result;
        }
        if arrive_at(result as i32, told_at) {
            return if info != 0 && memory::write(info, &told).is_err() { -(libc::EFAULT as isize) } else { result };
        }
        // SAFETY: this thread's own gate.
        if unsafe { Gate::has_deferred(inside.gate) } {
            return -(libc::EINTR as isize);
        }
    }
}

/// The kernel's own sigtimedwait(2), for a thread that is inside.
pub fn kernel(mut args: [u64; 6], inside: &Inside) -> isize {
    (args[4], args[5]) = (0, COOKIE);
    // SAFETY: the program's own call; our own gate and mask.
    unsafe { gate::sleep(&Sleep::new(inside.gate, inside.mask, libc::SYS_rt_sigtimedwait, args)) }
}

/// The rest of a timeout when the wait begins anew.
#[repr(C)]
struct Left {
    time: [u64; 2],
    /// When the timeout ends. `None` if there is no timeout, or if it cannot be read, which the kernel then reports.
    until: Option<u64>,
    is_first: bool,
}

impl Left {
    fn of(timeout: u64) -> Self {
        // A null pointer is not read: the waiting thread may have SIGSEGV blocked.
        let time = if timeout == 0 { None } else { memory::read::<[u64; 2]>(timeout).ok() };
        let until =
            time.map(|[seconds, ns]| now().saturating_add(seconds.saturating_mul(1_000_000_000)).saturating_add(ns));
        Self { time: [0; 2], until, is_first: true }
    }

    /// The argument for the next wait.
    fn argument(&mut self, timeout: u64) -> u64 {
        match self.until {
            Some(until) if !core::mem::take(&mut self.is_first) => {
                let left = until.saturating_sub(now());
                self.time = [left / 1_000_000_000, left % 1_000_000_000];
                (&raw const self.time) as u64
            }
            _ => timeout,
        }
    }
}

/// The state of `sigtimedwait` in `functions.rs`, which calls libc's own function in a loop.
#[repr(C)]
pub struct Waiting {
    pub set: u64,
    pub info: u64,
    pub timeout: u64,
    until: u64,
    left: [u64; 2],
    pub told: [u64; 16],
}

/// Called before the first wait.
pub unsafe extern "C" fn begins(waiting: *mut Waiting) {
    // SAFETY: on the stack of the assembly, which waits for this function.
    let waiting = unsafe { &mut *waiting };
    waiting.until = Left::of(waiting.timeout).until.unwrap_or(u64::MAX);
}

/// Called when a signal has come. Returns 0 if the wait has to go on, and -1 if the program's address is bad.
pub unsafe extern "C" fn came(waiting: *mut Waiting, signal: i32) -> i32 {
    // SAFETY: on the stack of the assembly, which waits for this function.
    let waiting = unsafe { &mut *waiting };
    if arrive_at(signal, (&raw mut waiting.told) as u64) {
        if waiting.info != 0 && memory::write(waiting.info, &waiting.told).is_err() {
            return fail(-(libc::EFAULT as isize));
        }
        return signal;
    }
    if waiting.until != u64::MAX {
        let left = waiting.until.saturating_sub(now());
        waiting.left = [left / 1_000_000_000, left % 1_000_000_000];
        waiting.timeout = (&raw const waiting.left) as u64;
    }
    0
}
