//! The names of the system calls on timers. `syscall` decodes their arguments.

/// The system calls on [`Timers`](super::Timers).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum TimerCall {
    /// `timer_create(clockid_t clockid, struct sigevent *sevp, timer_t *timerid)`.
    Create,
    /// `timer_settime(timer_t timerid, int flags, const struct itimerspec *new, struct itimerspec *old)`.
    Settime,
    /// `timer_gettime(timer_t timerid, struct itimerspec *curr)`.
    Gettime,
    /// `timer_getoverrun(timer_t timerid)`.
    Getoverrun,
    /// `timer_delete(timer_t timerid)`.
    Delete,
    /// `prctl(PR_TIMER_CREATE_RESTORE_IDS, ...)`; any other `prctl` is `EINVAL` here.
    Prctl,
}

impl TimerCall {
    /// The call with this number on x86-64.
    ///
    /// ```
    /// use ufutex::timer::TimerCall;
    ///
    /// assert_eq!(TimerCall::x86_64(222), Some(TimerCall::Create));
    /// assert_eq!(TimerCall::x86_64(0), None); // read(2)
    /// ```
    #[must_use]
    pub const fn x86_64(number: u64) -> Option<Self> {
        match number {
            157 => Some(Self::Prctl),
            222 => Some(Self::Create),
            223 => Some(Self::Settime),
            224 => Some(Self::Gettime),
            225 => Some(Self::Getoverrun),
            226 => Some(Self::Delete),
            _ => None,
        }
    }

    /// The call with this number on aarch64, riscv64, loongarch64.
    #[must_use]
    pub const fn generic(number: u64) -> Option<Self> {
        match number {
            107 => Some(Self::Create),
            108 => Some(Self::Gettime),
            109 => Some(Self::Getoverrun),
            110 => Some(Self::Settime),
            111 => Some(Self::Delete),
            167 => Some(Self::Prctl),
            _ => None,
        }
    }
}

/// The thread that makes a system call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Caller {
    /// The PID of its process.
    pub process: i32,
    /// Its TID.
    pub thread: i32,
}
