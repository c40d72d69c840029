//! The system calls that the engine implements, and their numbers on each architecture.

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
    /// `set_tid_address(int *tidptr)`: see [`Task::set_clear_child_tid`](crate::Task::set_clear_child_tid).
    SetTidAddress,
    /// `restart_syscall()`: after a stop the kernel has a program call this, to continue a wait with a timeout.
    RestartSyscall,
    /// A call of a 32-bit program.
    Compat(Compat),
}

/// The calls of a 32-bit program, which differ from a 64-bit one's in the size of a `struct timespec`, of a pointer, or of an
/// argument, of which only the lower 32 bits count. See [`Number::i386`], [`arm`](Number::arm), [`riscv32`](Number::riscv32).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Compat {
    /// `futex`, whose timespec has two fields of 32 bits.
    FutexTime32,
    /// `futex_time64`, whose timespec has two fields of 64 bits. Only the lower half of the nanoseconds counts.
    FutexTime64,
    /// `futex_waitv`; its timespec is as that of `futex_time64`.
    FutexWaitv,
    /// `futex_wake`.
    FutexWake,
    /// `futex_wait`; its timespec is as that of `futex_time64`.
    FutexWait,
    /// `futex_requeue`.
    FutexRequeue,
    /// `set_robust_list`, for a list of 32-bit pointers.
    SetRobustList,
    /// `get_robust_list`, which writes a pointer and a length of 32 bits each.
    GetRobustList,
    /// `set_tid_address`.
    SetTidAddress,
}

impl Number {
    /// The system call with this number on x86-64.
    ///
    /// ```
    /// assert_eq!(ufutex::syscall::Number::x86_64(202), Some(ufutex::syscall::Number::Futex));
    /// assert_eq!(ufutex::syscall::Number::x86_64(0), None); // read(2)
    /// ```
    #[must_use]
    pub const fn x86_64(number: u64) -> Option<Self> {
        match number {
            202 => Some(Self::Futex),
            218 => Some(Self::SetTidAddress),
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
            96 => Some(Self::SetTidAddress),
            98 => Some(Self::Futex),
            99 => Some(Self::SetRobustList),
            100 => Some(Self::GetRobustList),
            128 => Some(Self::RestartSyscall),
            _ => Self::common(number),
        }
    }

    /// The system call with this number on i386, also of a 32-bit program on x86-64.
    ///
    /// ```
    /// use ufutex::syscall::{Compat, Number};
    ///
    /// assert_eq!(Number::i386(240), Some(Number::Compat(Compat::FutexTime32)));
    /// assert_eq!(Number::i386(422), Some(Number::Compat(Compat::FutexTime64)));
    /// ```
    #[must_use]
    pub const fn i386(number: u64) -> Option<Self> {
        match number {
            0 => Some(Self::RestartSyscall),
            240 => Some(Self::Compat(Compat::FutexTime32)),
            258 => Some(Self::Compat(Compat::SetTidAddress)),
            311 => Some(Self::Compat(Compat::SetRobustList)),
            312 => Some(Self::Compat(Compat::GetRobustList)),
            _ => Self::narrow(number),
        }
    }

    /// The system call with this number on 32-bit Arm (EABI), also of a 32-bit program on aarch64.
    #[must_use]
    pub const fn arm(number: u64) -> Option<Self> {
        match number {
            0 => Some(Self::RestartSyscall),
            240 => Some(Self::Compat(Compat::FutexTime32)),
            256 => Some(Self::Compat(Compat::SetTidAddress)),
            338 => Some(Self::Compat(Compat::SetRobustList)),
            339 => Some(Self::Compat(Compat::GetRobustList)),
            _ => Self::narrow(number),
        }
    }

    /// The system call with this number on 32-bit RISC-V, which has no calls with 32-bit times.
    #[must_use]
    pub const fn riscv32(number: u64) -> Option<Self> {
        match number {
            96 => Some(Self::Compat(Compat::SetTidAddress)),
            99 => Some(Self::Compat(Compat::SetRobustList)),
            100 => Some(Self::Compat(Compat::GetRobustList)),
            128 => Some(Self::RestartSyscall),
            _ => Self::narrow(number),
        }
    }

    const fn narrow(number: u64) -> Option<Self> {
        Some(Self::Compat(match number {
            422 => Compat::FutexTime64,
            449 => Compat::FutexWaitv,
            454 => Compat::FutexWake,
            455 => Compat::FutexWait,
            456 => Compat::FutexRequeue,
            _ => return None,
        }))
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
