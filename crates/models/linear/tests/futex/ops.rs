//! The operations of programs, and calls of them with their results.

use std::fmt;

use crate::common::libc;

/// The result of a wait whose future was dropped.
pub const DROPPED: i64 = -(libc::ECANCELED as i64);

/// How a thread waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum How {
    /// It blocks.
    Thread,
    /// It queues, and then blocks. The kernel does both in one call.
    Prepared,
    /// It polls a future with a waker that does nothing, does something else for this many turns of a loop, and polls
    /// with a waker that ends its sleep until the future is ready.
    Future(u32),
    /// It polls a future, does something else, and drops the future.
    Dropped(u32),
    /// As `Dropped`, but it ends the future and gets its result.
    Ended(u32),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(clippy::enum_variant_names, reason = "`WakeOp` has that name in the interface")]
pub enum Op {
    Load(usize),
    Swap(usize, u32),
    /// A plain store. A wake of the word follows in the thread: only then is the store sure to be visible.
    Store(usize, u32),
    /// Locks a word in user space, as a program does before it calls `lock_pi`.
    LockFast(usize),
    /// Unlocks a word in user space, if no thread waits.
    UnlockFast(usize),
    Wait {
        word: usize,
        expected: u32,
        bitset: u32,
        /// In microseconds.
        timeout: Option<u32>,
        how: How,
    },
    /// Wakes up to `count` waiters, `i32::MAX` for all.
    Wake {
        word: usize,
        count: i32,
        bitset: u32,
    },
    /// Sets the second word to `value`. Wakes waiters of the second word if it held `old`.
    WakeOp {
        words: [usize; 2],
        counts: [i32; 2],
        value: u32,
        old: u32,
    },
    Requeue {
        from: usize,
        to: usize,
        expected: Option<u32>,
        wake: i32,
        requeue: i32,
    },
    Lock {
        word: usize,
        timeout: Option<u32>,
    },
    TryLock(usize),
    Unlock(usize),
}

impl Op {
    /// The number of nanoseconds for which the call blocks at least before it times out.
    pub fn timeout(self) -> Option<u64> {
        match self {
            Self::Wait { timeout, .. } | Self::Lock { timeout, .. } => timeout.map(|us| u64::from(us) * 1000),
            _ => None,
        }
    }
}

/// An operation that has been made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Made {
    pub op: Op,
    /// A number, or `-errno`.
    pub result: i64,
}

impl fmt::Display for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { op, result } = self;
        let result = match -*result as i32 {
            libc::EAGAIN => "EAGAIN".to_string(),
            libc::ETIMEDOUT => "ETIMEDOUT".to_string(),
            libc::EDEADLK => "EDEADLK".to_string(),
            libc::EINTR => "EINTR".to_string(),
            libc::EPERM => "EPERM".to_string(),
            libc::ECANCELED => "dropped".to_string(),
            _ => result.to_string(),
        };
        write!(f, "{op:?} = {result}")
    }
}
