//! Where blocks of IDs go in a table.

use crate::sys::random::mixed;

/// Spreads blocks of IDs, numbered one after the other, over groups of a table, whose number is cut to its size.
///
/// Each bit of a number is changed by bits above it alone. So as many blocks as there are groups, one after the other
/// from a multiple of that, have a group each, and mostly lie side by side as in an array, which a CPU's prefetcher
/// knows. Blocks at a distance spread as well, since what they have in common, the lower bits, is what is changed. And
/// which groups they share nobody can guess, who does not know the seed.
pub struct Spread {
    multiplier: u64,
}

/// So many of the lower bits are changed. A table with more groups than these tell apart has too many timers for their
/// IDs to have more than these in common.
const BITS: u32 = 8;

impl Spread {
    pub fn new(seed: u64) -> Self {
        Self { multiplier: mixed(seed) | 1 }
    }

    /// In which group a block is, and how far on in that it begins, so that IDs which are a multiple of a block apart have
    /// different slots. Both are to be cut to size.
    #[inline(always)]
    pub fn of(&self, block: u32) -> (u32, u32) {
        let product = u64::from(block >> BITS).wrapping_mul(self.multiplier);
        // All of the number decides about the upper bits of a product. But multiples of it lie as evenly, or as unevenly, as
        // the multiplier happens to be: three places of it together come like dice.
        let mixed = product ^ (product << 12) ^ (product << 24);
        let changed = block ^ (mixed >> (u64::BITS - BITS)) as u32;
        let first = block.wrapping_add(block >> 6).wrapping_add((product >> (u64::BITS - 2 * BITS)) as u32);
        (changed, first)
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;
    use std::collections::HashMap;
    use std::vec;
    use std::vec::Vec;

    /// How many of `blocks` the fullest of `groups` gets.
    fn most_in_one(seed: u64, groups: u32, blocks: impl Iterator<Item = u32>) -> u32 {
        let spread = Spread::new(seed);
        let mut counts = HashMap::new();
        blocks.for_each(|block| *counts.entry(spread.of(block).0 % groups).or_insert(0) += 1);
        counts.into_values().max().unwrap_or(0)
    }

    #[test]
    fn blocks_that_follow_each_other_have_a_group_each() {
        for seed in 0..50 {
            for log2 in [0, 2, 6, 10, 14] {
                for window in [0, 1, 3, 1000] {
                    let first = window << log2;
                    assert_eq!(most_in_one(seed, 1 << log2, first..first + (1 << log2)), 1, "seed {seed}, 2^{log2}");
                }
                // From anywhere: those of two windows.
                assert!(most_in_one(seed, 1 << log2, 12_345..12_345 + (1 << log2)) <= 2, "seed {seed}, 2^{log2}");
            }
        }
    }

    /// As many IDs as slots, 64 a group, each in a block of its own; how many timers a look-up meets then.
    fn steps_of_a_look_up(seed: u64, timers: u32, blocks: impl Iterator<Item = u32>) -> f64 {
        let spread = Spread::new(seed);
        let mut chains = vec![0u32; timers as usize];
        for block in blocks {
            let (group, first) = spread.of(block);
            chains[(group % (timers / 64) * 64 + first % 64) as usize] += 1;
        }
        f64::from(chains.iter().map(|length| length * (length + 1) / 2).sum::<u32>()) / f64::from(timers)
    }

    #[test]
    fn blocks_far_apart_spread_like_dice() {
        let mut all = Vec::new();
        for seed in 0..20 {
            for stride_log2 in 0..=12 {
                for timers_log2 in 6..=(24 - stride_log2).min(16) {
                    let blocks = (0..1 << timers_log2).map(|number: u32| number << stride_log2);
                    let steps = steps_of_a_look_up(seed, 1 << timers_log2, blocks);
                    assert!(steps <= 4.0, "seed {seed}, 2^{timers_log2} at a stride of 2^{stride_log2}: {steps}");
                    all.push(steps);
                }
            }
        }
        // Dice: half of a table as full as it is wide lies before a timer.
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        assert!(mean <= 1.6, "{mean}");
    }

    #[test]
    fn ids_far_apart_stand_in_different_slots() {
        for seed in 0..20 {
            let spread = Spread::new(seed);
            for stride in [1, 8, 64, 100, 4096] {
                let mut used: Vec<u32> = (0..64).map(|number| spread.of(number * stride).1 % 64).collect();
                used.sort_unstable();
                used.dedup();
                assert!(used.len() >= 16, "seed {seed}, stride {stride}: {} of 64", used.len());
            }
        }
    }

    #[test]
    fn seeds_give_different_ones() {
        let groups = |seed| (0..100).map(|number| Spread::new(seed).of(number << BITS).0).collect::<Vec<_>>();
        assert_ne!(groups(1), groups(2));
    }
}
