//! Interrupts, which end a thread's waits from outside, as a signal does.

use crate::signal::sleeper::Sleeper;
use crate::sys::setters::default_is_new;

/// Ends a thread's waits from outside. A wait that is under way when it is raised, or begins while it is raised, ends with
/// [`Error::Interrupted`](crate::Error::Interrupted) where it would sleep, even if the interrupt is [cleared](Self::clear)
/// before the thread notices. One thread at a time waits with it. Any thread may raise it, and a signal handler if
/// [`raise`](Self::raise) allows that.
#[derive(Debug)]
pub struct Interrupt {
    pub(crate) sleeper: Sleeper,
}

default_is_new!(Interrupt);

impl Interrupt {
    /// An interrupt that is not raised.
    #[must_use]
    pub fn new() -> Self {
        Self { sleeper: Sleeper::new() }
    }

    /// Raises it. Async-signal-safe if [`Platform::unpark`](crate::platform::Platform::unpark) is: futex(2) on Linux is, and
    /// `platform::AnyStd`, on other Unixes, is not, because it takes a mutex that the interrupted thread may hold.
    pub fn raise(&self) {
        self.sleeper.interrupt();
    }

    /// Clears it: waits that begin from now on sleep. One that is under way, and has been interrupted, ends. Async-signal-safe.
    pub fn clear(&self) {
        self.sleeper.clear();
    }

    /// Whether it is raised, and has not been cleared since.
    #[must_use]
    pub fn is_raised(&self) -> bool {
        self.sleeper.is_interrupted()
    }
}
