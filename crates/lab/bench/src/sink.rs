//! Where results go. Workloads know neither tables nor JSON.

use crate::neighbour::{Neighbour, Pair};
use crate::perf::Line;
use crate::schbench::{Competitor, Schbench};
use crate::{Lab, Memory, Outcome, Workload, schbench, timers};
use anyhow::Result;

/// Takes results as they come. An error (stdout cannot be written) ends the run.
pub trait Sink {
    /// The machine that the figures come from, before the first of them.
    fn opening(&mut self, lab: &Lab<'_>) -> Result<()>;
    /// The results of a workload, at its end.
    fn workload(&mut self, lab: &Lab<'_>, workload: Workload, outcome: &Outcome) -> Result<()>;
    /// The results of the section on table sizes.
    fn sizes(&mut self, lab: &Lab<'_>, outcome: &Outcome) -> Result<()>;
    /// The results of `hash --sweep`.
    fn sweep(&mut self, lab: &Lab<'_>, outcome: &Outcome) -> Result<()>;
    /// The results of `timers`.
    fn timers(&mut self, lab: &Lab<'_>, findings: &timers::Findings) -> Result<()>;
    /// What schbench has found until now, at each of its intervals.
    fn schbench_interval(&mut self, asked: &Schbench, findings: &schbench::Findings);
    /// The results of `schbench`: for each competitor its rounds.
    fn schbench(&mut self, lab: &Lab<'_>, found: &SchbenchOutcome<'_>) -> Result<()>;
    /// The results of `neighbour`.
    fn neighbour(&mut self, lab: &Lab<'_>, asked: &Neighbour, pairs: &[Pair]) -> Result<()>;
    /// All workloads have been measured.
    fn end(&mut self, lab: &Lab<'_>) -> Result<()>;
    /// With `--figures`: the memory that tables and domains take. Every sample is in `lab.series`.
    fn figures(&mut self, lab: &Lab<'_>, memory: &Memory) -> Result<()>;
    /// With `--format perf`, all results come as these.
    fn perf(&mut self, line: Line) -> Result<()>;
}

/// The results of `schbench`.
pub struct SchbenchOutcome<'a> {
    /// What was asked for.
    pub asked: &'a Schbench,
    /// The targets.
    pub competitors: &'a [Competitor],
    /// For each target its rounds.
    pub found: &'a [Vec<schbench::Findings>],
    /// What is left out and why, a line each.
    pub notes: &'a [String],
}
