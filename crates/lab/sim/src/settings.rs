//! What `ufutex sim` is asked to do; every value has been checked.

use lab_targets::{Layout, Policy};
use std::fmt;
use strum::{EnumMessage, EnumString, IntoStaticStr, VariantArray};
use ufutex_coherence::Topology;

/// What can be run on virtual cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumMessage, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Workload {
    /// perf's: a wait on a word that differs, each thread with words of its own
    Hash,
    /// A wake where nobody waits
    Wake,
    /// A new table size while threads hammer the old one
    Resize,
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.into())
    }
}

/// How operations reach their bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumMessage, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Scheme {
    /// Each bucket says whether it is live.
    Live,
    /// The table never changes.
    Fixed,
    /// One shared reference count.
    Atomic,
    /// A reference count for each CPU.
    Percpu,
    /// The system's table in place of one's own.
    Global,
}

impl Scheme {
    /// Whether its table takes a new size.
    pub fn can_resize(self) -> bool {
        matches!(self, Self::Live | Self::Atomic | Self::Percpu)
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.into())
    }
}

/// What `ufutex sim` was asked for, checked.
pub struct Settings {
    /// What to run.
    pub workload: Workload,
    /// The machine.
    pub topology: Topology,
    /// Each run has one of these.
    pub cores: Vec<usize>,
    /// The same.
    pub schemes: Vec<Scheme>,
    /// The same.
    pub layouts: Vec<Layout>,
    /// The same; the size of the table, or who sizes it.
    pub policies: Vec<Policy>,
    /// Words of each thread.
    pub futexes: usize,
    /// Whether a wait looks at the word first.
    pub early_return: bool,
    /// Slots before and after.
    pub resize: (usize, usize),
    /// Of chance.
    pub seed: u64,
    /// No progress.
    pub silent: bool,
    /// Rows.
    pub json: bool,
}
