//! `kernel`: the host's timers, by system calls. They belong to this process, so several processes must be real ones.

use super::{Bytes, Errno, Notify, Process};
use std::ptr::null_mut;

/// The calling process.
pub struct Kernel;

/// Limit on pending signals of the user. Each timer reserves one. `None` means no limit.
pub fn pending_signals_max() -> Option<usize> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes one rlimit, to `limit`.
    let failed = unsafe { libc::getrlimit(libc::RLIMIT_SIGPENDING, &mut limit) } != 0;
    (!failed && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur as usize)
}

fn answer(result: libc::c_long) -> Result<i32, Errno> {
    if result >= 0 {
        return Ok(result as i32);
    }
    Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
}

impl Process for Kernel {
    type Thread = ();

    fn thread(&self) {}

    #[inline]
    fn create(&self, (): &mut (), notify: Notify) -> Result<i32, Errno> {
        // SAFETY: all zeroes is a valid sigevent.
        let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
        event.sigev_notify = notify.number();
        event.sigev_signo = libc::SIGALRM;
        let mut id: libc::c_int = -1;
        // SAFETY: the kernel reads one sigevent and writes one int. Both are local variables.
        answer(unsafe { libc::syscall(libc::SYS_timer_create, libc::CLOCK_MONOTONIC, &raw const event, &raw mut id) })?;
        Ok(id)
    }

    fn create_as(&self, (): &mut (), _id: i32, _notify: Notify) -> Result<(), Errno> {
        Err(libc::ENOSYS)
    }

    #[inline]
    fn getoverrun(&self, id: i32) -> Result<i32, Errno> {
        // SAFETY: the call takes only a number.
        answer(unsafe { libc::syscall(libc::SYS_timer_getoverrun, id) })
    }

    #[inline]
    fn settime(&self, id: i32, seconds: u64) -> Result<(), Errno> {
        let never = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let value = libc::timespec { tv_sec: seconds as libc::time_t, tv_nsec: 0 };
        let new = libc::itimerspec { it_interval: never, it_value: value };
        let old = null_mut::<libc::itimerspec>();
        // SAFETY: the kernel reads one itimerspec, a local variable. The pointer for the old value is null.
        answer(unsafe { libc::syscall(libc::SYS_timer_settime, id, 0, &raw const new, old) }).map(|_| ())
    }

    #[inline]
    fn delete(&self, (): &mut (), id: i32) -> Result<(), Errno> {
        // SAFETY: the call takes only a number.
        answer(unsafe { libc::syscall(libc::SYS_timer_delete, id) }).map(|_| ())
    }

    fn bytes(_processes: &[Self], _timers: usize) -> Option<Bytes> {
        None
    }
}
