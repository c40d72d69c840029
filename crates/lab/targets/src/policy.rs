//! What decides the number of slots of a table.

use std::fmt;

/// A size policy of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The kernel's rule, by the number of threads.
    Threads,
    /// The engine's rule, by load.
    Load,
    /// This many slots.
    Fixed(usize),
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Policy::Threads => f.write_str("threads"),
            Policy::Load => f.write_str("load"),
            Policy::Fixed(slots) => write!(f, "{slots}"),
        }
    }
}
