//! The futex interface that the suite tests, implemented by the kernel and by the engine.

use std::sync::atomic::AtomicU32;

use ufutex::Timeout;

use crate::common::asleep::Call;

/// A positive errno value.
pub type Errno = i32;

/// Whether operations have `FUTEX_PRIVATE_FLAG` (`Private`) or not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sharing {
    Private,
    Shared,
}

/// Arguments of a wait.
#[derive(Clone, Copy, Debug)]
pub struct How {
    pub timeout: Option<Timeout>,
    pub bitset: u32,
    /// A real-time priority from 1 to 99, or 0 for none.
    pub priority: u8,
}

/// A wait without a timeout, for any bitset, without a real-time priority.
pub const PLAINLY: How = How { timeout: None, bitset: u32::MAX, priority: 0 };

impl How {
    pub fn within(timeout: Timeout) -> Self {
        Self { timeout: Some(timeout), ..PLAINLY }
    }

    pub fn with_bitset(bitset: u32) -> Self {
        Self { bitset, ..PLAINLY }
    }
}

/// The target of the suite's bodies.
pub trait Futex: Send + Sync {
    /// The sharing that most bodies use.
    fn sharing(&self) -> Sharing;

    fn wait_as(&self, sharing: Sharing, word: &AtomicU32, expected: u32, how: How) -> Result<(), Errno>;

    fn wake_as(&self, sharing: Sharing, word: &AtomicU32, count: usize, bitset: u32) -> usize;

    /// Whether a thread that sleeps in `call` is a waiter for `word` on this target.
    fn sleeps_in(&self, call: Call, word: &AtomicU32) -> bool;

    /// The reason why waiters cannot have real-time priorities, `None` if they can.
    fn lacks_priorities(&self) -> Option<String> {
        None
    }

    fn wait(&self, word: &AtomicU32, expected: u32, how: How) -> Result<(), Errno> {
        self.wait_as(self.sharing(), word, expected, how)
    }

    fn wake(&self, word: &AtomicU32, count: usize) -> usize {
        self.wake_bitset(word, count, u32::MAX)
    }

    fn wake_bitset(&self, word: &AtomicU32, count: usize, bitset: u32) -> usize {
        self.wake_as(self.sharing(), word, count, bitset)
    }
}

/// A new word. It is leaked, so that a thread which is never woken does not use freed memory.
pub fn word(value: u32) -> &'static AtomicU32 {
    Box::leak(Box::new(AtomicU32::new(value)))
}
