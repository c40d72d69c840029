//! Interrupts, which end a thread's waits from outside, as a signal does.

use crate::signal::sleeper::Sleeper;

/// Ends a thread's waits from outside. When it is raised, the thread's current wait with it, or else the next one that
/// would sleep, ends with [`Error::Interrupted`](crate::Error::Interrupted). So does every later one, until
/// [`clear`](Self::clear).
///
/// One thread at a time waits with it. Any thread may raise it. A signal handler may where
/// [`raise`](Self::raise) is async-signal-safe.
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
    /// An interrupt that is not raised.
    #[must_use]
    pub fn new() -> Self {
        Self { sleeper: Sleeper::new() }
    }

    /// Raises it. Async-signal-safe if [`Platform::unpark`](crate::platform::Platform::unpark) is: on Linux that is an
    /// atomic instruction and futex(2). `platform::AnyStd`, by which threads sleep on Unixes other than Linux, takes a
    /// mutex. A handler that has interrupted the thread that holds it would wait for ever.
    pub fn raise(&self) {
        self.sleeper.interrupt();
    }

    /// Lowers it: waits sleep again.
    pub fn clear(&self) {
        self.sleeper.clear();
    }

    /// Whether it is raised.
    #[must_use]
    pub fn is_raised(&self) -> bool {
        self.sleeper.is_interrupted()
    }
}
