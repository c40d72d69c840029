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

    /// Whose request of `waiting` a line goes to next: mostly the oldest one's. Interconnects keep no strict order, and one
    /// that did would lock cores in step.
    pub fn pick(&mut self, waiting: usize) -> usize {
        if waiting > 1 && self.below(4) == 0 { self.below(waiting as u64) as usize } else { 0 }
    }
}
