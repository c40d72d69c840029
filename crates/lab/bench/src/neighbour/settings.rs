//! What `bench neighbour` is asked to do; every value has been checked.

use super::{Attack, Operation};
use crate::Settings;
use std::time::Duration;

/// What `bench neighbour` is asked to do, checked.
pub struct Neighbour {
    /// What it shares with all workloads: the output.
    pub settings: Settings,
    /// In the order in which they run.
    pub attacks: Vec<Attack>,
    /// What the neighbour does beside each.
    pub operations: Vec<Operation>,
    /// `-n`, when given.
    pub numbers: Option<Vec<usize>>,
    /// Threads that attack.
    pub attackers: usize,
    /// Samples of each.
    pub rounds: usize,
    /// How long a sample is.
    pub sample: Duration,
}

impl Neighbour {
    /// How large `attack` is to be, one after the other.
    pub fn numbers(&self, attack: Attack) -> Vec<usize> {
        self.numbers.clone().unwrap_or_else(|| attack.numbers().to_vec())
    }
}
