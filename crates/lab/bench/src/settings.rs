//! Settings that all workloads share. A workload's own settings are the flags in its file.

use lab_targets::{Layout, Name, Policy};
use strum::VariantArray;

/// `-b`: the number of buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buckets {
    /// The size at which `live` settles.
    Auto,
    /// This number, for every target whose size can be set.
    Exactly(usize),
}

/// Settings that all workloads share. Every value has been checked.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `-r` in seconds, if given.
    pub runtime_s: Option<f64>,
    /// `--repeat`, if given.
    pub repeat: Option<usize>,
    /// The targets, in the order of the rows.
    pub targets: Vec<Name>,
    /// Bucket layout of the engine's tables.
    pub layout: Layout,
    /// `-b`.
    pub buckets: Buckets,
    /// `--policy`, if given.
    pub policy: Option<Policy>,
    /// `-S`.
    pub shared: bool,
    /// `--noise`: busy loops on each CPU while samples are taken, if given.
    pub noise: Option<usize>,
    /// `-s`.
    pub silent: bool,
    /// `--json`: print JSON instead of tables.
    pub json: bool,
}

/// The settings without any flag.
impl Default for Settings {
    fn default() -> Self {
        Settings {
            runtime_s: None,
            repeat: None,
            targets: Name::VARIANTS.to_vec(),
            layout: Layout::Lean,
            buckets: Buckets::Auto,
            policy: None,
            shared: false,
            noise: None,
            silent: false,
            json: false,
        }
    }
}

impl Settings {
    /// The size policy of `live`: `--policy`, else the size in `-b`, else the load policy.
    pub fn live_policy(&self) -> Policy {
        match (self.policy, self.buckets) {
            (Some(policy), _) => policy,
            (None, Buckets::Exactly(slots)) => Policy::Fixed(slots),
            (None, Buckets::Auto) => Policy::Load,
        }
    }
}
