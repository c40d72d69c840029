//! The key under which a waiter is queued, and the hash that picks its bucket.

use crate::sys::random::mixed;

/// Identifies a futex: an address within a space. Two operations meet if their keys are equal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct TableKey {
    pub address: u64,
    /// The space of the address: a domain or a shared object.
    pub space: u64,
}

/// The words of one cache line share a bucket in tables of up to 2 to this many buckets. Larger tables spread them.
const LINE_BUCKETS_LOG2: u32 = 12;
/// The number of address bits that spread a line's words in a large table.
const WITHIN_LINE_LOG2: u32 = 4;
/// Their position in the hash: just below the bits that a table of `1 << LINE_BUCKETS_LOG2` buckets uses.
const WITHIN_LINE_SHIFT: u32 = 32 - LINE_BUCKETS_LOG2 - WITHIN_LINE_LOG2;
const WITHIN_LINE: u32 = ((1 << WITHIN_LINE_LOG2) - 1) << WITHIN_LINE_SHIFT;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hash {
    /// Its top bits are the bucket's index, so a resize splits a bucket into a few neighbours, or merges a few.
    pub bits: u32,
    /// The hash of the cache line, which all its words have in common.
    pub line: u32,
}

/// The hash function of a `System`, keyed with a secret so that a guest cannot choose addresses that collide.
///
/// In a small table all words of a cache line share a bucket, because CPUs that use them transfer that line in any case.
///
/// A single multiplication would leave neighbouring lines in arithmetic progression: with one secret in seven they gather in a
/// few slots. So there are two. The first folds all 128 bits of its product into those that the second moves to the top.
#[derive(Clone, Copy)]
pub struct Hasher {
    first: u64,
    second: u64,
    space: u64,
}

/// What a key's space contributes to the hash. It is constant for the private keys of a domain.
#[derive(Clone, Copy)]
pub struct Salt {
    space: u64,
    /// The bits of an address that name its line, or all if the keys are IDs: a mask serves both at the same cost.
    line: u64,
}

impl Hasher {
    pub const fn new(seed: u64) -> Self {
        let first = mixed(seed);
        let second = mixed(first);
        Self { first: first | 1, second: second | 1, space: mixed(second) | 1 }
    }

    /// The salt for the keys of `space`, which are addresses.
    #[inline(always)]
    pub const fn salt(&self, space: u64) -> Salt {
        Salt { space: space.wrapping_mul(self.space).wrapping_add(self.second), line: !63 }
    }

    /// As [`salt`](Self::salt), for keys that are IDs: consecutive IDs do not share a line.
    pub const fn salt_of_ids(&self, space: u64) -> Salt {
        Salt { line: !0, ..self.salt(space) }
    }

    #[inline(always)]
    pub const fn hash(&self, address: u64, salt: Salt) -> Hash {
        let product = ((address & salt.line) ^ salt.space) as u128 * self.first as u128;
        let mixed = product as u64 ^ (product >> 64) as u64;
        let line = (mixed.wrapping_mul(self.second) >> 32) as u32;
        let within = (address >> 2) as u32;
        Hash { bits: line ^ (within << WITHIN_LINE_SHIFT & WITHIN_LINE), line }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn hash(hasher: &Hasher, address: u64) -> Hash {
        hasher.hash(address, hasher.salt(4))
    }

    #[test]
    fn no_seed_gathers_neighbouring_lines_in_a_few_slots() {
        for seed in 0..2000 {
            let hasher = Hasher::new(seed);
            let mut slots: Vec<u32> = (0..64).map(|i| hash(&hasher, 0x7fff_1000 + 64 * i).bits >> 28).collect();
            slots.sort_unstable();
            slots.dedup();
            // If 64 balls are thrown into sixteen bins, more than five bins stay empty once in a million times.
            assert!(slots.len() >= 11, "seed {seed}: 64 lines in {} of 16 slots", slots.len());
        }
    }

    /// As before, for keys that differ only in a few high bits: numbers with a kind or a CPU in their upper half.
    #[test]
    fn no_seed_gathers_keys_that_differ_in_high_bits() {
        for shift in [32, 40, 48, 52, 53, 55, 58] {
            for seed in 0..500 {
                let hasher = Hasher::new(seed);
                for salt in [hasher.salt(4), hasher.salt_of_ids(4)] {
                    let slot = |i: u64| hasher.hash(0x7000 + (i << shift), salt).bits >> 28;
                    let mut slots: Vec<u32> = (0..64).map(slot).collect();
                    slots.sort_unstable();
                    slots.dedup();
                    assert!(slots.len() >= 11, "seed {seed}, shift {shift}: 64 keys in {} of 16 slots", slots.len());
                }
            }
        }
    }

    #[test]
    fn words_of_a_line_share_a_small_tables_bucket_and_part_in_a_large_one() {
        let hasher = Hasher::new(1);
        let hashes: Vec<Hash> = (0..16).map(|i| hash(&hasher, 0x7000 + 4 * i)).collect();
        assert!(hashes.iter().all(|h| h.bits >> 20 == hashes[0].bits >> 20));
        let mut large: Vec<u32> = hashes.iter().map(|h| h.bits >> 16).collect();
        large.sort_unstable();
        large.dedup();
        assert_eq!(large.len(), 16);
        assert!(hashes.iter().all(|h| h.line == hashes[0].line));
    }

    #[test]
    fn lines_spread_evenly_for_sequential_addresses_and_for_strides_of_a_page() {
        for stride in [64, 4096, 1 << 21] {
            let hasher = Hasher::new(stride);
            let mut counts = [0u32; 256];
            for i in 0..256 * 64 {
                counts[hash(&hasher, 0x5555_0000_0000 + i * stride).bits as usize >> 24] += 1;
            }
            // Chi-square with 255 degrees of freedom: mean 255, standard deviation 22.6.
            let chi: f64 = counts.iter().map(|&c| (f64::from(c) - 64.0).powi(2) / 64.0).sum();
            assert!(chi < 255.0 + 6.0 * 22.6, "stride {stride}: chi-square {chi}");
        }
    }

    #[test]
    fn another_seed_gives_other_collisions() {
        let (a, b) = (Hasher::new(1), Hasher::new(2));
        let collide = |h: &Hasher| -> Vec<u64> {
            let first = hash(h, 0).bits >> 24;
            (1..10_000u64).filter(|i| hash(h, i * 64).bits >> 24 == first).collect()
        };
        let (a, b) = (collide(&a), collide(&b));
        let both = a.iter().filter(|i| b.contains(i)).count();
        assert!(both * 8 < a.len(), "{both} of {} collisions are common to both seeds", a.len());
    }
}
