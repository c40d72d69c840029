//! Settings of `bench neighbour`. Every value has been checked.

use super::{Attack, Cpu, Operation};
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
    /// The attackers' CPU time, in the order in which it is measured under each attack.
    pub cpus: Vec<Cpu>,
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
    /// Each attack with each of its sizes and each share of CPU time, in the order in which they run.
    pub fn stages(&self) -> Vec<(Attack, usize, Cpu)> {
        let numbers = |attack: Attack| self.numbers.clone().unwrap_or_else(|| attack.numbers().to_vec());
        let sizes = self.attacks.iter().flat_map(|attack| numbers(*attack).into_iter().map(|number| (*attack, number)));
        sizes.flat_map(|(attack, number)| self.cpus.iter().map(move |cpu| (attack, number, *cpu))).collect()
    }
}
