//! Random choices by seed: the same numbers for the same seed.

/// A random number generator (SplitMix64), small enough to be read in full.
#[derive(Clone, Debug)]
pub struct Arbiter(u64);

impl Arbiter {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A random number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
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
