//! The checked settings of `ufutex sim`.

use lab_targets::{Layout, Policy};
use strum::{Display, EnumMessage, EnumString, IntoStaticStr, VariantArray};
use ufutex_coherence::Topology;

/// A workload on virtual cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, EnumMessage, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Workload {
    /// Wait on a word that differs, each thread on its own words, as in perf
    Hash,
    /// Wake a word without waiters
    Wake,
    /// Resize a table while threads hammer it
    Resize,
}

/// How operations reach their bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, EnumMessage, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Scheme {
    /// A flag in each bucket marks it live.
    Live,
    /// The table is never resized.
    Fixed,
    /// One shared reference count.
    Atomic,
    /// A reference count for each CPU.
    Percpu,
    /// The global table instead of a private one.
    Global,
}

impl Scheme {
    /// Whether the scheme's table can be resized.
    pub fn can_resize(self) -> bool {
        matches!(self, Self::Live | Self::Atomic | Self::Percpu)
    }
}

/// The settings of `ufutex sim`.
pub struct Settings {
    /// The workload.
    pub workload: Workload,
    /// The modelled machine.
    pub topology: Topology,
    /// Numbers of cores. There is a run for each combination of these four lists.
    pub cores: Vec<usize>,
    /// Schemes.
    pub schemes: Vec<Scheme>,
    /// Layouts.
    pub layouts: Vec<Layout>,
    /// Size policies, or fixed sizes.
    pub policies: Vec<Policy>,
    /// Words of each thread.
    pub futexes: usize,
    /// Whether a wait compares the word before it locks anything.
    pub early_return: bool,
    /// Slots before and after the resize.
    pub resize: (usize, usize),
    /// The seed of all random choices.
    pub seed: u64,
    /// Whether to show no progress.
    pub silent: bool,
    /// Whether to print rows of JSON.
    pub json: bool,
}
