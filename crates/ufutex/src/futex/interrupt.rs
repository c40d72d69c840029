//! Ending a thread's wait from outside, as a signal does.

use crate::wait::sleeper::Sleeper;

/// What ends a thread's wait from outside: of that thread's waits which are given it, the one that goes on or the next
/// one that would sleep ends with [`Error::Interrupted`](crate::Error::Interrupted), and every one after it, until
/// [`clear`](Self::clear).
///
/// One thread waits with it at a time; any thread, and a signal handler, may raise it.
#[derive(Debug)]
pub struct Interrupt {
    pub(crate) sleeper: Sleeper,
}

impl Default for Interrupt {
    fn default() -> Self {
        Self::new()
    }
}

impl Interrupt {
    /// One that is not raised.
    #[must_use]
    pub fn new() -> Self {
        Self { sleeper: Sleeper::new() }
    }

    /// Raises it. Async-signal-safe: an atomic instruction and futex(2).
    pub fn raise(&self) {
        self.sleeper.interrupt();
    }

    /// Takes it down: waits sleep again.
    pub fn clear(&self) {
        self.sleeper.clear();
    }

    /// Whether it is raised.
    #[must_use]
    pub fn is_raised(&self) -> bool {
        self.sleeper.is_interrupted()
    }
}
