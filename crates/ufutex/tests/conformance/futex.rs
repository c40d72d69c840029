//! What the suite asks of a futex, be it the kernel's or the engine's.

use std::sync::atomic::AtomicU32;

use ufutex::Timeout;

use crate::common::asleep::Call;

/// A positive errno value.
pub type Errno = i32;

/// Whether an operation says that nobody else shares the word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sharing {
    Private,
    Shared,
}

/// How to wait.
#[derive(Clone, Copy, Debug)]
pub struct How {
    pub timeout: Option<Timeout>,
    pub bitset: u32,
    /// A real-time priority from 1 to 99, or 0 for none.
    pub priority: u8,
}

/// Without a timeout, for any wake, without a real-time priority.
pub const PLAINLY: How = How { timeout: None, bitset: u32::MAX, priority: 0 };

impl How {
    pub fn within(timeout: Timeout) -> Self {
        Self { timeout: Some(timeout), ..PLAINLY }
    }

    pub fn with_bitset(bitset: u32) -> Self {
        Self { bitset, ..PLAINLY }
    }
}

/// What the bodies run on.
pub trait Futex: Send + Sync {
    /// What most bodies say when they wait and wake.
    fn sharing(&self) -> Sharing;

    fn wait_as(&self, sharing: Sharing, word: &AtomicU32, expected: u32, how: How) -> Result<(), Errno>;

    fn wake_as(&self, sharing: Sharing, word: &AtomicU32, count: usize, bitset: u32) -> usize;

    /// Whether a thread that sleeps in `call` waits for `word` here.
    fn sleeps_in(&self, call: Call, word: &AtomicU32) -> bool;

    /// Why waiters cannot have priorities here, if they cannot.
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

/// A word of its own that lives as long as the process, so that a thread which is never woken does no harm.
pub fn word(value: u32) -> &'static AtomicU32 {
    Box::leak(Box::new(AtomicU32::new(value)))
}
