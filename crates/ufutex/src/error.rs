//! The errors of operations, each with its errno.

use core::fmt;

/// Why an operation failed. Each variant is the errno that futex(2), prctl(2) or timer_create(2) returns.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The futex word did not hold the expected value, the lock is taken, or no more timers can be made (`EAGAIN`).
    Again,
    /// The deadline passed before a wake came (`ETIMEDOUT`).
    TimedOut,
    /// The word's memory cannot be reached (`EFAULT`).
    Fault,
    /// An argument of the wrong form, such as a misaligned address, a value wider than the word, or a number of slots that is
    /// no power of two (`EINVAL`).
    Invalid,
    /// The table is immutable or has 0 slots and cannot change, or a waiter, task or interrupt is already in use (`EBUSY`).
    Busy,
    /// There is no memory for a table or a task, or a limit that the embedder sets for guests is reached (`ENOMEM`).
    NoMemory,
    /// The wait was interrupted (`EINTR`).
    Interrupted,
    /// Another task owns the lock, or its owner cannot be waited for (`EPERM`).
    NotPermitted,
    /// The word names an owner that does not exist (`ESRCH`).
    NoTask,
    /// Waiting would be a deadlock: the task owns the lock, or the lock's owner waits, perhaps through other locks, for the
    /// task. Or the chain of owners exceeds [`SystemConfig::max_pi_depth`](crate::SystemConfig::max_pi_depth) (`EDEADLK`).
    Deadlock,
    /// There is no such operation (`ENOSYS`).
    NoSuchOperation,
    /// The operation does not support this clock (`EOPNOTSUPP`).
    UnsupportedClock,
}

impl Error {
    /// The positive errno value, as Linux numbers it on x86-64 and aarch64.
    ///
    /// ```
    /// assert_eq!(ufutex::Error::Again.errno(), 11);
    /// ```
    #[must_use]
    #[inline]
    pub const fn errno(self) -> i32 {
        self.number_and_text().0
    }

    #[inline]
    const fn number_and_text(self) -> (i32, &'static str) {
        match self {
            Self::NotPermitted => (1, "the lock is another task's, or its owner cannot be waited for (EPERM)"),
            Self::NoTask => (3, "the futex word names an owner that does not exist (ESRCH)"),
            Self::Interrupted => (4, "the wait was interrupted (EINTR)"),
            Self::Again => {
                (11, "the futex word holds another value, the lock is taken, or no timer can be had (EAGAIN)")
            }
            Self::NoMemory => (12, "no memory for a futex table or a task, or a limit has been reached (ENOMEM)"),
            Self::Fault => (14, "the futex word's memory cannot be reached (EFAULT)"),
            Self::Busy => (16, "the futex table cannot change any more, or the waiter or task is in use (EBUSY)"),
            Self::Invalid => (22, "an argument is not of the form this operation takes (EINVAL)"),
            Self::Deadlock => (35, "waiting for the lock would be a deadlock (EDEADLK)"),
            Self::NoSuchOperation => (38, "there is no such operation (ENOSYS)"),
            Self::UnsupportedClock => (95, "not with this clock (EOPNOTSUPP)"),
            Self::TimedOut => (110, "the deadline passed before a wake came (ETIMEDOUT)"),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.number_and_text().1)
    }
}

impl core::error::Error for Error {}

impl From<crate::sys::mem::Fault> for Error {
    fn from(_: crate::sys::mem::Fault) -> Self {
        Self::Fault
    }
}
