//! The rows of `timers`.

use lab_targets::timers::Lateness;
use serde::Serialize;

/// One row: one object of `--json`, one line of a table. What a test does not measure is left out.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Always `timers`.
    pub workload: &'static str,
    /// As on the command line.
    pub test: &'static str,
    /// As on the command line.
    pub target: &'static str,
    /// Of each thread.
    pub timers: usize,
    /// Of each process.
    pub threads: usize,
    /// How many.
    pub processes: usize,
    /// From an ID to the next, where the caller chooses them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sparse: Option<usize>,
    /// Of one timer_create, as a thread sees it; the median over the rounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub create_ns: Option<f64>,
    /// Of one timer_getoverrun.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub getoverrun_ns: Option<f64>,
    /// Of one timer_delete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete_ns: Option<f64>,
    /// Of one timer_settime.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settime_ns: Option<f64>,
    /// Of a timer_create and a timer_delete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub create_delete_ns: Option<f64>,
    /// Of everything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_timer: Option<f64>,
    /// Where timers are found, without them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table_bytes: Option<usize>,
    /// How late timers were that expired, in the worst round.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lateness_us: Option<Lateness>,
    /// Those that never did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<usize>,
    /// Rounds.
    pub repeat: usize,
    /// One way of a cache line between the first two CPUs, where two are used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus_apart_ns: Option<f64>,
    /// `near` or `far`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus_distance: Option<&'static str>,
    /// Of create, getoverrun, create and delete over the radix tree's, and of settime over the kernel's; pairwise.
    #[serde(skip)]
    pub ratios: [Option<f64>; 4],
}
