//! Turns the engine's errors into the results of C functions: `-errno`.

use core::ffi::{c_int, c_long};

/// An errno, as a positive number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Errno(pub c_int);

impl Errno {
    pub const BAD_HANDLE: Self = Self(libc::EBADF);
    pub const BUSY: Self = Self(libc::EBUSY);
    pub const FAULT: Self = Self(libc::EFAULT);
    pub const IN_PROGRESS: Self = Self(libc::EINPROGRESS);
    pub const INVALID: Self = Self(libc::EINVAL);
    pub const NO_MEMORY: Self = Self(libc::ENOMEM);
    pub const NO_SYSCALL: Self = Self(libc::ENOSYS);
    pub const TIMED_OUT: Self = Self(libc::ETIMEDOUT);
    pub const TOO_BIG: Self = Self(libc::E2BIG);
}

impl From<engine::Error> for Errno {
    fn from(error: engine::Error) -> Self {
        Self(error.errno())
    }
}

impl From<engine::Fault> for Errno {
    fn from(_: engine::Fault) -> Self {
        Self::FAULT
    }
}

/// The result of a function of the interface that does `run`: a number from 0 up, or `-errno`.
#[inline(always)]
pub(crate) fn long<T: TryInto<c_long>>(run: impl FnOnce() -> Result<T, Errno>) -> c_long {
    match run() {
        Ok(number) => number.try_into().unwrap_or(c_long::MAX),
        Err(Errno(errno)) => -c_long::from(errno),
    }
}

/// As [`long`], for an `int`.
#[inline(always)]
pub(crate) fn int<T: TryInto<c_long>>(run: impl FnOnce() -> Result<T, Errno>) -> c_int {
    c_int::try_from(long(run)).unwrap_or(c_int::MAX)
}

/// As [`int`]. The number is 0.
#[inline(always)]
pub(crate) fn done(run: impl FnOnce() -> Result<(), Errno>) -> c_int {
    int(|| run().map(|()| 0))
}
