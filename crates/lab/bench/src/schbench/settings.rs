//! Settings of `bench schbench`. Every value has been checked.

use super::Pinning;
use crate::Settings;
use lab_targets::schbench::Plan;
use std::path::PathBuf;
use std::time::Duration;

/// Settings of `bench schbench`.
pub struct Schbench {
    /// Settings that all workloads share: targets, tables, output.
    pub settings: Settings,
    /// The work of one run.
    pub plan: Plan,
    /// The times of one run.
    pub course: Course,
    /// The CPUs of the threads.
    pub pinning: Pinning,
    /// `--tasks`: the number of threads that run the workers as futures. `None`: each worker is a thread.
    pub executors: Option<usize>,
    /// `-j`.
    pub file: Option<PathBuf>,
    /// `-J`.
    pub jobname: Option<String>,
}

/// The times of one run.
#[derive(Clone, Debug)]
pub struct Course {
    /// `-r`.
    pub runtime: Duration,
    /// `-w`. Zero means that there is no warm-up.
    pub warm_up: Duration,
    /// `-i`.
    pub interval: Duration,
    /// `-z`.
    pub zero: Option<Duration>,
    /// `-A`.
    pub busy_percent: Option<f64>,
}

/// `-M` or `-W`.
#[derive(Clone, Debug, PartialEq)]
pub enum Cpus {
    /// One CPU for each message thread, the rest for the workers.
    Auto,
    /// These CPUs.
    These(Vec<usize>),
}
