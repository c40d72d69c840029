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
    /// A call of a 32-bit program.
    Compat(CompatTimerCall),
}

/// The system calls on timers of a 32-bit program that differ from those of a 64-bit one. Only the lower 32 bits of each
/// argument count. See [`TimerCall::i386`], [`TimerCall::arm`] and [`TimerCall::riscv32`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum CompatTimerCall {
    /// `timer_create`. The value in a `struct sigevent` has 32 bits, and is passed on with zeroes above.
    Create,
    /// `timer_settime`, whose itimerspec has four fields of 32 bits.
    SettimeTime32,
    /// `timer_settime64`, whose itimerspec has four fields of 64 bits. Only the lower half of the nanoseconds counts.
    SettimeTime64,
    /// `timer_gettime`, whose itimerspec has four fields of 32 bits. If a time does not fit, its lower bits are written.
    GettimeTime32,
    /// `timer_gettime64`, whose itimerspec has four fields of 64 bits.
    GettimeTime64,
    /// As [`TimerCall::Prctl`].
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
        Self::wide(number, [222, 223, 224, 225, 226, 157])
    }

    /// The call with this number on aarch64, riscv64, loongarch64.
    #[must_use]
    pub const fn generic(number: u64) -> Option<Self> {
        Self::wide(number, [107, 110, 108, 109, 111, 167])
    }

    /// By the numbers of timer_create, timer_settime, timer_gettime, timer_getoverrun, timer_delete and prctl.
    const fn wide(number: u64, [create, settime, gettime, getoverrun, delete, prctl]: [u64; 6]) -> Option<Self> {
        Some(match number {
            n if n == create => Self::Create,
            n if n == settime => Self::Settime,
            n if n == gettime => Self::Gettime,
            n if n == getoverrun => Self::Getoverrun,
            n if n == delete => Self::Delete,
            n if n == prctl => Self::Prctl,
            _ => return None,
        })
    }

    /// The call with this number on i386, also of a 32-bit program on x86-64.
    ///
    /// ```
    /// use ufutex::timer::{CompatTimerCall, TimerCall};
    ///
    /// assert_eq!(TimerCall::i386(260), Some(TimerCall::Compat(CompatTimerCall::SettimeTime32)));
    /// assert_eq!(TimerCall::i386(409), Some(TimerCall::Compat(CompatTimerCall::SettimeTime64)));
    /// ```
    #[must_use]
    pub const fn i386(number: u64) -> Option<Self> {
        Some(Self::Compat(match number {
            172 => CompatTimerCall::Prctl,
            259 => CompatTimerCall::Create,
            260 => CompatTimerCall::SettimeTime32,
            261 => CompatTimerCall::GettimeTime32,
            262 => return Some(Self::Getoverrun),
            263 => return Some(Self::Delete),
            408 => CompatTimerCall::GettimeTime64,
            409 => CompatTimerCall::SettimeTime64,
            _ => return None,
        }))
    }

    /// The call with this number on 32-bit Arm (EABI), also of a 32-bit program on aarch64.
    #[must_use]
    pub const fn arm(number: u64) -> Option<Self> {
        match number {
            257..=261 => Self::i386(number + 2),
            172 | 408 | 409 => Self::i386(number),
            _ => None,
        }
    }

    /// The call with this number on 32-bit RISC-V, which has no calls with 32-bit times.
    #[must_use]
    pub const fn riscv32(number: u64) -> Option<Self> {
        match number {
            107 => Some(Self::Compat(CompatTimerCall::Create)),
            109 => Some(Self::Getoverrun),
            111 => Some(Self::Delete),
            167 => Some(Self::Compat(CompatTimerCall::Prctl)),
            408 | 409 => Self::i386(number),
            _ => None,
        }
    }
}

/// The thread that makes a system call, by the numbers that the guest knows. With the host's clocks they are the host's only
/// with [`TimerOptions::host_pids`](super::TimerOptions::host_pids).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Caller {
    /// The PID of its process.
    pub process: i32,
    /// Its TID.
    pub thread: i32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn numbers_of_64_bit_programs_are_the_kernels() {
        use TimerCall::{Create, Delete, Getoverrun, Gettime, Prctl, Settime};
        let table = |of: fn(u64) -> Option<TimerCall>| -> Vec<_> {
            (0..1000).filter_map(|number| of(number).map(|call| (number, call))).collect()
        };
        let x86_64 = [(157, Prctl), (222, Create), (223, Settime), (224, Gettime), (225, Getoverrun), (226, Delete)];
        assert_eq!(table(TimerCall::x86_64), x86_64);
        let generic = [(107, Create), (108, Gettime), (109, Getoverrun), (110, Settime), (111, Delete), (167, Prctl)];
        assert_eq!(table(TimerCall::generic), generic);
    }
}
