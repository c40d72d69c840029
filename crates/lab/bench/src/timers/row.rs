//! The rows of `timers`.

use lab_targets::timers::Lateness;
use serde::Serialize;

/// One row: an object of `--json` and a line of a table. Fields that the test does not measure are left out.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Always `timers`.
    pub workload: &'static str,
    /// Name on the command line.
    pub test: &'static str,
    /// Name on the command line.
    pub target: &'static str,
    /// Timers of each thread.
    pub timers: usize,
    /// Threads of each process.
    pub threads: usize,
    /// Number of processes.
    pub processes: usize,
    /// Distance between two IDs, if the caller chooses the IDs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sparse: Option<usize>,
    /// Time of one timer_create, as a thread sees it; median over the rounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub create_ns: Option<f64>,
    /// Time of one timer_getoverrun.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub getoverrun_ns: Option<f64>,
    /// Time of one timer_delete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete_ns: Option<f64>,
    /// Time of one timer_settime.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settime_ns: Option<f64>,
    /// Time of one timer_create and one timer_delete together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub create_delete_ns: Option<f64>,
    /// Bytes of everything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_timer: Option<f64>,
    /// Bytes of the tables without the timers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table_bytes: Option<usize>,
    /// Lateness of expired timers, in the worst round.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lateness_us: Option<Lateness>,
    /// Timers that did not expire.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<usize>,
    /// Number of rounds.
    pub repeat: usize,
    /// One-way transfer of a cache line between the first two CPUs, in ns. `None` with one thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus_apart_ns: Option<f64>,
    /// `near` or `far`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus_distance: Option<&'static str>,
    /// Create, getoverrun and create+delete divided by the radix tree's times, and settime by the kernel's, round by
    /// round.
    #[serde(skip)]
    pub ratios: [Option<f64>; 4],
}
