//! What the model of `ufutex sim` says, as the report needs it. Never mixed with what was measured.

use serde::Serialize;

/// All of it.
#[derive(Default)]
pub struct Modelled {
    /// Throughput by cores.
    pub cores: Vec<Cores>,
    /// The published comparisons.
    pub seeds: Vec<Side>,
    /// What a careful reader asks.
    pub notes: Vec<String>,
}

/// One run of a scheme on so many virtual cores.
#[derive(Clone, Debug, Serialize)]
pub struct Cores {
    /// Always `sim hash`.
    pub workload: &'static str,
    /// Whose latencies.
    pub topology: String,
    /// As on the command line of `sim`.
    pub scheme: String,
    /// As on the command line of `sim`.
    pub layout: String,
    /// Of the table.
    pub buckets: usize,
    /// Virtual.
    pub cores: usize,
    /// Of all cores together, a virtual second.
    pub ops_per_sec: f64,
    /// Lines that were found modified in another core's cache, for each operation.
    pub hitm_per_op: f64,
    /// The fields that they were fetched for.
    pub hot: Vec<Hot>,
}

/// A field of the engine's memory that cores take from each other.
#[derive(Clone, Debug, Serialize)]
pub struct Hot {
    /// `Bucket`, ...
    pub object: String,
    /// As in the source.
    pub field: String,
    /// From the object's start.
    pub offset: usize,
    /// Of the field; none where the model does not say.
    pub bytes: Option<usize>,
    /// For each operation.
    pub hitm: f64,
}

/// A published comparison on virtual cores.
#[derive(Clone, Debug, Serialize)]
pub struct Side {
    /// Always `sim seeds`.
    pub workload: &'static str,
    /// As in `published`.
    pub case: String,
    /// Whose latencies, and how many cores.
    pub machine: String,
    /// Operations a virtual second.
    pub before_per_sec: f64,
    /// The same.
    pub after_per_sec: f64,
}

impl Modelled {
    /// A published comparison's rows here.
    pub fn seed(&self, id: &str) -> Option<&Side> {
        self.seeds.iter().find(|side| side.case == id)
    }
}
