//! The multiplier that spreads groups of IDs over a table.

use crate::sys::random::mixed;

/// A multiplier that nobody can guess, and that spreads numbers which follow each other nearly as evenly as the golden
/// ratio does: as a fraction of 2^64, its continued fraction has small terms only.
///
/// A random one will not do. Multiples of it lie at distances that those terms decide, and a large one gathers them.
/// Hashing twice, as for futexes, spreads them like dice: with as many slots as timers every other one shares its slot.
pub fn multiplier(seed: u64) -> u64 {
    let mut candidate = seed;
    loop {
        candidate = mixed(candidate);
        if is_even(candidate | 1) {
            return candidate | 1;
        }
    }
}

/// The largest term, of the first so many, which decide about tables of up to 2^25 groups.
const LARGEST: u128 = 6;
const TERMS: usize = 16;

fn is_even(multiplier: u64) -> bool {
    let (mut above, mut below) = (1u128 << 64, u128::from(multiplier));
    for _ in 0..TERMS {
        if below == 0 || above / below > LARGEST {
            return false;
        }
        (above, below) = (below, above % below);
    }
    true
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;
    use std::vec;

    #[test]
    fn numbers_that_follow_each_other_share_no_slot_with_many() {
        for seed in 0..200 {
            let multiplier = multiplier(seed);
            for log2 in [2, 6, 10, 14] {
                for start in [0u64, 12_345, 30_000_000] {
                    let mut slots = vec![0; 1 << log2];
                    for i in 0..1 << log2 {
                        slots[((start + i).wrapping_mul(multiplier) >> (64 - log2)) as usize] += 1;
                    }
                    let most = slots.iter().max().copied().unwrap_or(0);
                    assert!(most <= 3, "seed {seed}: {most} of 2^{log2} in one slot");
                    let squares: u32 = slots.iter().map(|n| n * n).sum();
                    assert!(squares <= 2 << log2, "seed {seed}: {squares} for 2^{log2}");
                }
            }
        }
    }

    #[test]
    fn seeds_give_different_ones() {
        assert_ne!(multiplier(1), multiplier(2));
    }
}
