//! Settings of `bench neighbour`. Every value has been checked.

use super::{Attack, Operation};
use crate::Settings;
use std::time::Duration;

/// Settings of `bench neighbour`.
pub struct Neighbour {
    /// Settings that all workloads share. Only those of the output are used.
    pub settings: Settings,
    /// The attacks, in the order in which they run.
    pub attacks: Vec<Attack>,
    /// The operations that are measured beside each attack.
    pub operations: Vec<Operation>,
    /// `-n`, if given.
    pub numbers: Option<Vec<usize>>,
    /// Number of attacking threads.
    pub attackers: usize,
    /// Number of samples of each operation.
    pub rounds: usize,
    /// Length of a sample.
    pub sample: Duration,
}

impl Neighbour {
    /// The sizes of `attack`, in the order in which they run.
    pub fn numbers(&self, attack: Attack) -> Vec<usize> {
        self.numbers.clone().unwrap_or_else(|| attack.numbers().to_vec())
    }
}
