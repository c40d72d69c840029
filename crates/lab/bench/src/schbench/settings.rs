//! What `bench schbench` is asked to do; every value has been checked.

use super::Pinning;
use crate::Settings;
use lab_targets::schbench::Plan;
use std::path::PathBuf;
use std::time::Duration;

/// What `bench schbench` is asked to do, checked.
pub struct Schbench {
    /// What it shares with all workloads: targets, tables, output.
    pub settings: Settings,
    /// What one run does.
    pub plan: Plan,
    /// When it does it.
    pub course: Course,
    /// Where.
    pub pinning: Pinning,
    /// `--tasks`: the number of threads that run the workers as futures. `None`: each worker is a thread.
    pub executors: Option<usize>,
    /// `-j`.
    pub file: Option<PathBuf>,
    /// `-J`.
    pub jobname: Option<String>,
}

/// What happens when in a run.
#[derive(Clone, Debug)]
pub struct Course {
    /// `-r`.
    pub runtime: Duration,
    /// `-w`; nothing where there is none.
    pub warm_up: Duration,
    /// `-i`.
    pub interval: Duration,
    /// `-z`.
    pub zero: Option<Duration>,
    /// `-A`.
    pub busy_percent: Option<f64>,
}

/// `-M`, `-W`.
#[derive(Clone, Debug, PartialEq)]
pub enum Cpus {
    /// One for each message thread, the others for workers.
    Auto,
    /// These.
    These(Vec<usize>),
}
