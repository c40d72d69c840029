//! Spreads blocks of timer IDs over the groups of a table.

use crate::sys::random::mixed;

/// Spreads blocks of IDs over the groups of a table. Blocks have consecutive numbers; the caller cuts the result to the
/// size of the table.
///
/// Each bit of a block's number is changed only by the bits above it. So N consecutive blocks that begin at a multiple
/// of N have one group each in a table of N groups. Most of them lie side by side as in an array, which suits a CPU's
/// prefetcher. Blocks with a stride spread as well: they have their lower bits in common, and these are the bits that
/// are changed. Which blocks share a group cannot be guessed without the seed.
pub struct Spread {
    multiplier: u64,
}

/// The number of lower bits that are changed. A table with more than 2^`BITS` groups has so many timers that their
/// blocks cannot have more than these bits in common.
const BITS: u32 = 8;

impl Spread {
    pub fn new(seed: u64) -> Self {
        Self { multiplier: mixed(seed) | 1 }
    }

    /// The group of a block, and the offset in the group at which the block begins. The offsets give different slots to
    /// IDs whose distance is a multiple of a block. The caller cuts both to size.
    #[inline(always)]
    pub fn of(&self, block: u32) -> (u32, u32) {
        let product = u64::from(block >> BITS).wrapping_mul(self.multiplier);
        // All bits of a number affect the upper bits of the product. But its multiples are spaced as evenly, or as
        // unevenly, as the multiplier happens to make them. Three places of the product combined are distributed as if
        // thrown with dice.
        let mixed = product ^ (product << 12) ^ (product << 24);
        let changed = block ^ (mixed >> (u64::BITS - BITS)) as u32;
        let first = block.wrapping_add(block >> 6).wrapping_add((product >> (u64::BITS - 2 * BITS)) as u32);
        (changed, first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;
    use std::vec;
    use std::vec::Vec;

    /// The number of `blocks` in the fullest of `groups`.
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
                // N blocks from anywhere are blocks of two such windows, so a group has at most two of them.
                assert!(most_in_one(seed, 1 << log2, 12_345..12_345 + (1 << log2)) <= 2, "seed {seed}, 2^{log2}");
            }
        }
    }

    /// The average number of timers that a look-up meets, if there are as many IDs as slots, each in a block of its
    /// own.
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
        // With dice the mean is 1.5: there is one timer for each slot, and half a timer lies before the one looked up.
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
