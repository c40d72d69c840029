//! Chance, by seed: the same numbers each time.

/// A generator of numbers (SplitMix64), small enough to be looked through.
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

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// Whose request a line goes to next, of some in order of age: that of the oldest of those who are nearest to it, or of
    /// the oldest of all. A core's own threads meet in its caches, a chiplet's cores in theirs, and only what they leave over
    /// is seen by those beyond.
    pub fn pick<D: Ord + Copy>(&mut self, distances: impl Iterator<Item = D>) -> usize {
        let nearest = distances.enumerate().min_by_key(|(_, distance)| *distance).map_or(0, |(number, _)| number);
        if nearest == 0 || self.below(UNFAIR) == 0 { 0 } else { nearest }
    }
}

/// One in so many requests is served by age alone.
const UNFAIR: u64 = 4;
