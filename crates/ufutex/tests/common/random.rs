//! Pseudo-random numbers that depend on a seed alone.

/// SplitMix64 (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014).
#[derive(Clone)]
pub struct Random(u64);

impl Random {
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The generator for program `index` of a run with `seed`. It does not depend on the programs before that one.
    pub fn of_program(seed: u64, index: u64) -> Self {
        let mut mixed = Self(seed ^ index.wrapping_mul(0xd6e8_feb8_6659_fd93));
        Self(mixed.next())
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// True with a probability of 1 in `n`.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// True with a probability of `percent` in 100.
    pub fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of `choices`, all equally likely.
    pub fn of<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())].clone()
    }

    /// One of `choices`, each with a probability in proportion to its weight.
    pub fn weighted<T: Clone>(&mut self, choices: &[(usize, T)]) -> T {
        let mut ticket = self.below(choices.iter().map(|(weight, _)| weight).sum());
        for (weight, choice) in choices {
            match ticket.checked_sub(*weight) {
                None => return choice.clone(),
                Some(rest) => ticket = rest,
            }
        }
        unreachable!("the ticket is below the sum of the weights")
    }
}
