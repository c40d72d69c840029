//! The system calls and their numbers.

/// The system calls that the engine implements, apart from those on timers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Number {
    /// `futex(uint32_t *uaddr, int op, uint32_t val, const struct timespec *timeout, uint32_t *uaddr2, uint32_t val3)`.
    Futex,
    /// `futex_waitv(struct futex_waitv *waiters, unsigned nr, unsigned flags, struct timespec *timeout, clockid_t)`.
    FutexWaitv,
    /// `futex_wake(void *uaddr, unsigned long mask, int nr, unsigned flags)`.
    FutexWake,
    /// `futex_wait(void *uaddr, unsigned long val, unsigned long mask, unsigned flags, struct timespec *, clockid_t)`.
    FutexWait,
    /// `futex_requeue(struct futex_waitv *waiters, unsigned flags, int nr_wake, int nr_requeue)`.
    FutexRequeue,
    /// `set_robust_list(struct robust_list_head *head, size_t len)`.
    SetRobustList,
    /// `get_robust_list(int pid, struct robust_list_head **head_ptr, size_t *len_ptr)`.
    GetRobustList,
    /// `restart_syscall()`: after a stop the kernel has a program call this, to continue a wait with a timeout.
    RestartSyscall,
}

impl Number {
    /// The system call with this number on x86-64.
    ///
    /// ```
    /// assert_eq!(ufutex::Number::x86_64(202), Some(ufutex::Number::Futex));
    /// assert_eq!(ufutex::Number::x86_64(0), None); // read(2)
    /// ```
    #[must_use]
    pub const fn x86_64(number: u64) -> Option<Self> {
        match number {
            202 => Some(Self::Futex),
            219 => Some(Self::RestartSyscall),
            273 => Some(Self::SetRobustList),
            274 => Some(Self::GetRobustList),
            _ => Self::common(number),
        }
    }

    /// The system call with this number on aarch64, riscv64, loongarch64.
    #[must_use]
    pub const fn generic(number: u64) -> Option<Self> {
        match number {
            98 => Some(Self::Futex),
            99 => Some(Self::SetRobustList),
            100 => Some(Self::GetRobustList),
            128 => Some(Self::RestartSyscall),
            _ => Self::common(number),
        }
    }

    const fn common(number: u64) -> Option<Self> {
        match number {
            449 => Some(Self::FutexWaitv),
            454 => Some(Self::FutexWake),
            455 => Some(Self::FutexWait),
            456 => Some(Self::FutexRequeue),
            _ => None,
        }
    }
}
