//! Random choices by seed: the same numbers for the same seed.

use crate::random::Random;

/// The random choices of a simulation.
#[derive(Clone, Debug)]
pub struct Arbiter(Random);

impl Arbiter {
    pub fn new(seed: u64) -> Self {
        Self(Random::new(seed))
    }

    /// A random number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0.below(bound)
    }

    /// Picks the request that gets a line next, from requests in order of age: the oldest of those nearest to the line
    /// or, by chance, the oldest of all. Threads of a core meet in its caches and cores of a chiplet in theirs, and
    /// cores beyond see only what these leave over.
    pub fn pick<D: Ord + Copy>(&mut self, distances: impl Iterator<Item = D>) -> usize {
        let nearest = distances.enumerate().min_by_key(|(_, distance)| *distance).map_or(0, |(number, _)| number);
        if nearest == 0 || self.below(UNFAIR) == 0 { 0 } else { nearest }
    }
}

/// One in this many requests is served by age alone.
const UNFAIR: u64 = 4;
