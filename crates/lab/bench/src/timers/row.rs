//! The rows of `timers`.

use lab_targets::timers::Lateness;
use serde::Serialize;

/// One row: an object of `--json` and a line of a table. The help has a line on each field. Those that the test does not
/// measure are left out.
#[derive(Clone, Debug, Serialize)]
#[expect(missing_docs, reason = "the help has a line on each field")]
pub struct Row {
    pub workload: &'static str,
    pub test: &'static str,
    pub target: &'static str,
    pub timers: usize,
    pub threads: usize,
    pub processes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sparse: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub create_ns: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub getoverrun_ns: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete_ns: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settime_ns: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub create_delete_ns: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_timer: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table_bytes: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lateness_us: Option<Lateness>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<usize>,
    pub repeat: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus_apart_ns: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus_distance: Option<&'static str>,
    /// Create, getoverrun and create+delete divided by the radix tree's times, and settime by the kernel's, round by
    /// round.
    #[serde(skip)]
    pub ratios: [Option<f64>; 4],
}
