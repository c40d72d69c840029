//! A system call: a number and six arguments.

use crate::common::libc;

/// Which system call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Number {
    Futex,
    FutexWaitv,
    FutexWake,
    FutexWait,
    FutexRequeue,
    SetRobustList,
    GetRobustList,
    SetTidAddress,
    /// `restart_syscall`, which the kernel makes a program call after an interruption without a handler.
    Restart,
}

impl Number {
    /// The number on the host's architecture.
    #[cfg(target_os = "linux")]
    pub fn native(self) -> libc::c_long {
        match self {
            Self::Futex => libc::SYS_futex,
            Self::FutexWaitv => 449,
            Self::FutexWake => 454,
            Self::FutexWait => 455,
            Self::FutexRequeue => 456,
            Self::SetRobustList => libc::SYS_set_robust_list,
            Self::GetRobustList => libc::SYS_get_robust_list,
            Self::SetTidAddress => libc::SYS_set_tid_address,
            Self::Restart => libc::SYS_restart_syscall,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Call {
    pub number: Number,
    pub args: [u64; 6],
}

/// Indices of the arguments of futex(2).
const OP: usize = 1;
const VAL: usize = 2;
const TIMEOUT: usize = 3;
const ADDRESS2: usize = 4;
const VAL3: usize = 5;

impl Call {
    pub fn new(number: Number, args: [u64; 6]) -> Self {
        Self { number, args }
    }

    /// futex(2) with this address, operation and value. All other arguments are 0.
    pub fn futex(address: impl Into<u64>, op: i32, value: u32) -> Self {
        Self::new(Number::Futex, [address.into(), op as u32 as u64, value.into(), 0, 0, 0])
    }

    fn with(mut self, place: usize, value: u64) -> Self {
        self.args[place] = value;
        self
    }

    fn with_op(self, change: impl FnOnce(i32) -> i32) -> Self {
        assert_eq!(self.number, Number::Futex, "only futex(2) has an operation");
        self.with(OP, change(self.args[OP] as i32) as u32 as u64)
    }

    /// With `FUTEX_PRIVATE_FLAG`.
    pub fn private(self) -> Self {
        self.with_op(|op| op | libc::FUTEX_PRIVATE_FLAG)
    }

    /// Without `FUTEX_PRIVATE_FLAG`.
    pub fn shared(self) -> Self {
        self.with_op(|op| op & !libc::FUTEX_PRIVATE_FLAG)
    }

    /// With `FUTEX_CLOCK_REALTIME`.
    pub fn realtime(self) -> Self {
        self.with_op(|op| op | libc::FUTEX_CLOCK_REALTIME)
    }

    /// With the timespec at this address.
    pub fn timeout(self, timespec: u64) -> Self {
        match self.number {
            Number::Futex | Number::FutexWaitv => self.with(TIMEOUT, timespec),
            Number::FutexWait => self.with(4, timespec),
            number => panic!("{number:?} takes no timeout"),
        }
    }

    pub fn value(self, value: u32) -> Self {
        self.with(VAL, value.into())
    }

    /// The second count, which is passed in the place of the timeout.
    pub fn value2(self, value: i32) -> Self {
        self.with(TIMEOUT, value as u32 as u64)
    }

    pub fn address2(self, address: impl Into<u64>) -> Self {
        self.with(ADDRESS2, address.into())
    }

    pub fn value3(self, value: u32) -> Self {
        self.with(VAL3, value.into())
    }

    /// Sets the argument with the index `place`.
    pub fn argument(self, place: usize, value: u64) -> Self {
        self.with(place, value)
    }
}
