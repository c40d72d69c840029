//! Random numbers that are the same for the same seed, on every machine.

/// SplitMix64: small, fast, and good enough to choose among a few things.
pub struct Rng(u64);

impl Rng {
    /// The generator of program `index` of a run: each program can be made again without those before it.
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

    /// True `percent` times in a hundred.
    pub fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of `choices`.
    pub fn one<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())].clone()
    }

    /// One of the choices, each as likely as its weight says.
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
