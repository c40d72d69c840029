//! Receives the results. Workloads know neither tables nor JSON.

use crate::neighbour::{Neighbour, Pair};
use crate::perf::Line;
use crate::schbench::{Competitor, Schbench};
use crate::{Lab, Memory, Outcome, schbench};
use anyhow::Result;

/// Receives results when a workload has them. An error (stdout cannot be written) ends the run.
pub trait Sink {
    /// Receives the description of the machine, before any result.
    fn opening(&mut self, lab: &Lab<'_>) -> Result<()>;
    /// Receives a workload's results when it ends.
    fn workload(&mut self, lab: &Lab<'_>, outcome: &Outcome) -> Result<()>;
    /// Receives schbench's results until now, at each of its intervals.
    fn schbench_interval(&mut self, asked: &Schbench, findings: &schbench::Findings);
    /// Receives the results of `schbench`: the rounds of each competitor.
    fn schbench(&mut self, lab: &Lab<'_>, found: &SchbenchOutcome<'_>) -> Result<()>;
    /// Receives the results of `neighbour`.
    fn neighbour(&mut self, lab: &Lab<'_>, asked: &Neighbour, pairs: &[Pair]) -> Result<()>;
    /// Called when all workloads have ended.
    fn end(&mut self, lab: &Lab<'_>) -> Result<()>;
    /// With `--figures`: receives the memory sizes. All samples are in `lab.series`.
    fn figures(&mut self, lab: &Lab<'_>, memory: &Memory) -> Result<()>;
    /// With `--format perf`: receives all results.
    fn perf(&mut self, line: Line) -> Result<()>;
}

/// The results of `schbench`.
pub struct SchbenchOutcome<'a> {
    /// The settings.
    pub asked: &'a Schbench,
    /// The targets.
    pub competitors: &'a [Competitor],
    /// The rounds of each target.
    pub found: &'a [Vec<schbench::Findings>],
    /// One line for each target that was left out, with the reason.
    pub notes: &'a [String],
}
