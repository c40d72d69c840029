//! The priority of a task, in one byte, as the kernel counts it.

use core::cmp::Reverse;

/// The level of tasks and waiters without a real-time priority: the kernel's `MAX_RT_PRIO`. Level 0 is the best.
pub(crate) const NORMAL: u8 = 100;

/// The priority that a task runs with. A greater priority runs first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Priority(Reverse<u8>);

impl Priority {
    /// No real-time priority.
    pub const NORMAL: Self = Self::from_level(NORMAL);

    /// A real-time priority, as sched_setscheduler(2) counts them: 99, or more, runs first. 0 means no real-time priority.
    #[must_use]
    pub const fn realtime(priority: u8) -> Self {
        match priority {
            0 => Self::NORMAL,
            1..99 => Self::from_level(NORMAL - 1 - priority),
            _ => Self::from_level(0),
        }
    }

    /// The priority as sched_setscheduler(2) counts it. 0 means no real-time priority.
    #[must_use]
    pub const fn as_realtime(self) -> u8 {
        if self.level() == NORMAL { 0 } else { NORMAL - 1 - self.level() }
    }

    pub(crate) const fn level(self) -> u8 {
        self.0.0
    }

    pub(crate) const fn from_level(level: u8) -> Self {
        Self(Reverse(level))
    }
}
