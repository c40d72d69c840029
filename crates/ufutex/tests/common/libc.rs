//! What the tests use of libc. On hosts other than Linux it is Linux's numbers alone: the engine speaks Linux's
//! interface everywhere, and a host's own numbers may differ.

#[cfg(target_os = "linux")]
pub use ::libc::*;

#[cfg(not(target_os = "linux"))]
pub use elsewhere::*;

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    #![allow(non_camel_case_types, non_upper_case_globals, reason = "as in libc")]

    pub type c_int = i32;
    pub type c_long = i64;
    pub type time_t = i64;
    pub type clockid_t = i32;

    #[repr(C)]
    #[derive(Clone, Copy)]
    pub struct timespec {
        pub tv_sec: time_t,
        pub tv_nsec: c_long,
    }

    pub const EPERM: c_int = 1;
    pub const ESRCH: c_int = 3;
    pub const EINTR: c_int = 4;
    pub const EAGAIN: c_int = 11;
    pub const ENOMEM: c_int = 12;
    pub const EFAULT: c_int = 14;
    pub const EBUSY: c_int = 16;
    pub const EINVAL: c_int = 22;
    pub const EDEADLK: c_int = 35;
    pub const ENOSYS: c_int = 38;
    pub const EOPNOTSUPP: c_int = 95;
    pub const ETIMEDOUT: c_int = 110;

    pub const FUTEX_WAIT: c_int = 0;
    pub const FUTEX_WAKE: c_int = 1;
    pub const FUTEX_FD: c_int = 2;
    pub const FUTEX_REQUEUE: c_int = 3;
    pub const FUTEX_CMP_REQUEUE: c_int = 4;
    pub const FUTEX_WAKE_OP: c_int = 5;
    pub const FUTEX_LOCK_PI: c_int = 6;
    pub const FUTEX_UNLOCK_PI: c_int = 7;
    pub const FUTEX_TRYLOCK_PI: c_int = 8;
    pub const FUTEX_WAIT_BITSET: c_int = 9;
    pub const FUTEX_WAKE_BITSET: c_int = 10;
    pub const FUTEX_WAIT_REQUEUE_PI: c_int = 11;
    pub const FUTEX_CMP_REQUEUE_PI: c_int = 12;
    pub const FUTEX_PRIVATE_FLAG: c_int = 128;
    pub const FUTEX_CLOCK_REALTIME: c_int = 256;
    pub const FUTEX_TID_MASK: u32 = 0x3fff_ffff;
    pub const FUTEX_OWNER_DIED: u32 = 1 << 30;
    pub const FUTEX_WAITERS: u32 = 1 << 31;

    pub const CLOCK_REALTIME: clockid_t = 0;
    pub const CLOCK_MONOTONIC: clockid_t = 1;
    pub const CLOCK_PROCESS_CPUTIME_ID: clockid_t = 2;
    pub const CLOCK_THREAD_CPUTIME_ID: clockid_t = 3;
    pub const CLOCK_MONOTONIC_RAW: clockid_t = 4;
    pub const CLOCK_REALTIME_COARSE: clockid_t = 5;
    pub const CLOCK_MONOTONIC_COARSE: clockid_t = 6;
    pub const CLOCK_BOOTTIME: clockid_t = 7;
    pub const CLOCK_REALTIME_ALARM: clockid_t = 8;
    pub const CLOCK_BOOTTIME_ALARM: clockid_t = 9;
    pub const CLOCK_TAI: clockid_t = 11;
    pub const TIMER_ABSTIME: c_int = 1;

    pub const SIGKILL: c_int = 9;
    pub const SIGUSR1: c_int = 10;
    pub const SIGALRM: c_int = 14;
    pub const SIGSTOP: c_int = 19;
    pub const SIGEV_SIGNAL: c_int = 0;
    pub const SIGEV_NONE: c_int = 1;
    pub const SIGEV_THREAD: c_int = 2;
    pub const SIGEV_THREAD_ID: c_int = 4;

    // Of x86-64, whatever the host: no system call of the host is made by them.
    pub const SYS_futex: c_long = 202;
    pub const SYS_prctl: c_long = 157;
    pub const SYS_restart_syscall: c_long = 219;
    pub const SYS_timer_create: c_long = 222;
    pub const SYS_timer_settime: c_long = 223;
    pub const SYS_timer_gettime: c_long = 224;
    pub const SYS_timer_getoverrun: c_long = 225;
    pub const SYS_timer_delete: c_long = 226;
    pub const SYS_set_robust_list: c_long = 273;
    pub const SYS_get_robust_list: c_long = 274;
}
