//! Random programs: pseudo-random numbers that depend on a seed alone, and the shortest program that fails.

/// SplitMix64 (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The generator number `index` of a run with `seed`. It does not depend on those before it.
    pub fn of_program(seed: u64, index: u64) -> Self {
        let mut mixed = Self(seed ^ index.wrapping_mul(0xd6e8_feb8_6659_fd93));
        Self(mixed.next())
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed(self.0)
    }

    /// A number below `end`, which is not 0.
    pub fn below<N: TryInto<u64> + TryFrom<u64>>(&mut self, end: N) -> N {
        let end = end.try_into().unwrap_or_else(|_| unreachable!("an end is positive"));
        N::try_from(self.next() % end).unwrap_or_else(|_| unreachable!("it is below the end"))
    }

    /// True with a probability of 1 in `n`.
    pub fn one_in(&mut self, n: u64) -> bool {
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
        let mut ticket: usize = self.below(choices.iter().map(|(weight, _)| weight).sum());
        for (weight, choice) in choices {
            match ticket.checked_sub(*weight) {
                None => return choice.clone(),
                Some(rest) => ticket = rest,
            }
        }
        unreachable!("the ticket is below the sum of the weights")
    }
}

/// A number that depends on all bits of `number`.
pub fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// The number in an environment variable, or `default` if it is not set.
pub fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable)
        .map_or(default, |value| value.parse().unwrap_or_else(|_| panic!("{variable}={value:?} is no number")))
}

/// Leaves out steps of a program, first many at once, as long as the rest still fails.
pub fn fewest<S: Clone>(mut steps: Vec<S>, mut fails: impl FnMut(&[S]) -> bool) -> Vec<S> {
    let mut chunk = steps.len().div_ceil(2);
    while chunk > 0 {
        let (mut at, before) = (0, steps.len());
        while at < steps.len() {
            let rest = [&steps[..at], &steps[(at + chunk).min(steps.len())..]].concat();
            if fails(&rest) {
                steps = rest;
            } else {
                at += chunk;
            }
        }
        chunk = if steps.len() < before { chunk } else { chunk / 2 };
    }
    steps
}
