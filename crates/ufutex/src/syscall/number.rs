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
        Self::wide(number, [202, 218, 219, 273, 274])
    }

    /// The system call with this number on aarch64, riscv64, loongarch64.
    #[must_use]
    pub const fn generic(number: u64) -> Option<Self> {
        Self::wide(number, [98, 96, 128, 99, 100])
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
        Self::narrow(number, [240, 258, 0, 311, 312])
    }

    /// The system call with this number on 32-bit Arm (EABI), also of a 32-bit program on aarch64.
    #[must_use]
    pub const fn arm(number: u64) -> Option<Self> {
        Self::narrow(number, [240, 256, 0, 338, 339])
    }

    /// The system call with this number on 32-bit RISC-V, which has no calls with 32-bit times.
    #[must_use]
    pub const fn riscv32(number: u64) -> Option<Self> {
        Self::narrow(number, [TIME64, 96, 128, 99, 100])
    }

    /// By the numbers of futex, set_tid_address, restart_syscall, set_robust_list and get_robust_list. Others are the same
    /// everywhere.
    #[inline(always)]
    const fn wide(number: u64, [futex, set_tid, restart, set_robust, get_robust]: [u64; 5]) -> Option<Self> {
        Some(match number {
            n if n == futex => Self::Futex,
            n if n == set_tid => Self::SetTidAddress,
            n if n == restart => Self::RestartSyscall,
            n if n == set_robust => Self::SetRobustList,
            n if n == get_robust => Self::GetRobustList,
            449 => Self::FutexWaitv,
            454 => Self::FutexWake,
            455 => Self::FutexWait,
            456 => Self::FutexRequeue,
            _ => return None,
        })
    }

    /// As `wide`, for 32-bit programs. Their `futex` is the call with 32-bit times.
    const fn narrow(number: u64, numbers: [u64; 5]) -> Option<Self> {
        Some(Self::Compat(match Self::wide(number, numbers) {
            _ if number == TIME64 => Compat::FutexTime64,
            Some(Self::Futex) => Compat::FutexTime32,
            Some(Self::SetTidAddress) => Compat::SetTidAddress,
            Some(Self::SetRobustList) => Compat::SetRobustList,
            Some(Self::GetRobustList) => Compat::GetRobustList,
            Some(Self::FutexWaitv) => Compat::FutexWaitv,
            Some(Self::FutexWake) => Compat::FutexWake,
            Some(Self::FutexWait) => Compat::FutexWait,
            Some(Self::FutexRequeue) => Compat::FutexRequeue,
            restart_or_none => return restart_or_none,
        }))
    }
}

/// `futex_time64` of every 32-bit architecture, and the only `futex` of the newer ones.
const TIME64: u64 = 422;

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;
    use std::string::String;
    use std::vec::Vec;

    /// What each number of an architecture means, as the kernel's tables have it.
    fn table(of: fn(u64) -> Option<Number>) -> String {
        let calls = (0..1000).chain([u64::from(u32::MAX), u64::MAX]);
        let calls: Vec<_> = calls.filter_map(|number| Some(format!("{number} {:?}", of(number)?))).collect();
        calls.join("\n").replace("Compat(", "").replace(')', "")
    }

    #[test]
    fn numbers_are_the_kernels() {
        let newer = "449 FutexWaitv\n454 FutexWake\n455 FutexWait\n456 FutexRequeue";
        let x86_64 = "202 Futex\n218 SetTidAddress\n219 RestartSyscall\n273 SetRobustList\n274 GetRobustList";
        assert_eq!(table(Number::x86_64), format!("{x86_64}\n{newer}"));
        let generic = "96 SetTidAddress\n98 Futex\n99 SetRobustList\n100 GetRobustList\n128 RestartSyscall";
        assert_eq!(table(Number::generic), format!("{generic}\n{newer}"));
        let newer = format!("422 FutexTime64\n{newer}");
        let i386 = "0 RestartSyscall\n240 FutexTime32\n258 SetTidAddress\n311 SetRobustList\n312 GetRobustList";
        assert_eq!(table(Number::i386), format!("{i386}\n{newer}"));
        let arm = "0 RestartSyscall\n240 FutexTime32\n256 SetTidAddress\n338 SetRobustList\n339 GetRobustList";
        assert_eq!(table(Number::arm), format!("{arm}\n{newer}"));
        let riscv32 = "96 SetTidAddress\n99 SetRobustList\n100 GetRobustList\n128 RestartSyscall";
        assert_eq!(table(Number::riscv32), format!("{riscv32}\n{newer}"));
    }

    #[test]
    fn calls_of_32_bit_programs_are_compatible_ones() {
        for of in [Number::i386, Number::arm, Number::riscv32] {
            let calls: Vec<_> = (0..1000).filter_map(of).collect();
            let is_compatible = |call: &&Number| matches!(call, Number::Compat(_));
            assert_eq!(calls.iter().filter(is_compatible).count(), calls.len() - 1, "all but restart_syscall(2)");
        }
    }
}
