//! Keys and where they hash to.

/// What two operations must have in common to meet: an address within a space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Key {
    /// The address, or the offset in a shared object.
    pub address: u64,
    /// Whose address it is: a domain or a shared object.
    pub space: u64,
}

/// Words in one cache line share a bucket until a table has more than 2 to this many buckets, and spread from there on.
const LINE_BUCKETS_LOG2: u32 = 12;
/// How many of a word's address bits within its line spread it then.
const WITHIN_LINE_LOG2: u32 = 4;
/// Where in the hash they stand: after the bits that a table of that size uses.
const WITHIN_LINE_SHIFT: u32 = 32 - LINE_BUCKETS_LOG2 - WITHIN_LINE_LOG2;
const WITHIN_LINE: u32 = ((1 << WITHIN_LINE_LOG2) - 1) << WITHIN_LINE_SHIFT;

/// Where a key hashes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hash {
    /// 32 bits, whose top ones give the bucket.
    pub bits: u32,
    /// What the words of one cache line have in common.
    pub line: u32,
}

/// The hash function of a `System`, with a secret so that a guest cannot choose addresses that collide.
///
/// The bucket of a key is given by the top bits of its hash, so the bucket in a small table is implied by the one in a
/// larger table: a resize moves a bucket to a few neighbours, or a few neighbours to one.
///
/// The top bits come from the cache line that the word lies in. CPUs that use neighbouring words bounce that line
/// between them as it is; a bucket for each word would make them bounce sixteen lines more. A large table has been
/// asked for by many waiters, and there the words of a line part.
#[derive(Clone, Copy)]
pub struct Hasher {
    secret: [u64; 2],
}

impl Hasher {
    /// The hash function of `seed`.
    pub const fn new(seed: u64) -> Self {
        let a = splitmix(seed);
        let b = splitmix(a);
        // Spaces are below 2^63, so with the top bit set the multiplier in `hash` is never zero.
        Self { secret: [a, b | 1 << 63] }
    }

    /// The hash of `key`.
    #[inline(always)]
    pub fn hash(&self, key: Key) -> Hash {
        let line = key.address >> 6;
        let product = u128::from(line ^ self.secret[0]) * u128::from(key.space ^ self.secret[1]);
        let line = (product as u64 ^ (product >> 64) as u64) as u32;
        let within = (key.address >> 2) as u32;
        Hash { bits: line ^ (within << WITHIN_LINE_SHIFT & WITHIN_LINE), line }
    }
}

/// One step of the SplitMix64 generator: spreads a seed over all bits.
const fn splitmix(seed: u64) -> u64 {
    let mut x = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn key(address: u64) -> Key {
        Key { address, space: 4 }
    }

    #[test]
    fn words_of_a_line_share_a_small_tables_bucket_and_part_in_a_large_one() {
        let hasher = Hasher::new(1);
        let hashes: Vec<Hash> = (0..16).map(|i| hasher.hash(key(0x7000 + 4 * i))).collect();
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
                counts[hasher.hash(key(0x5555_0000_0000 + i * stride)).bits as usize >> 24] += 1;
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
            let first = h.hash(key(0)).bits >> 24;
            (1..10_000u64).filter(|i| h.hash(key(i * 64)).bits >> 24 == first).collect()
        };
        let (a, b) = (collide(&a), collide(&b));
        let both = a.iter().filter(|i| b.contains(i)).count();
        assert!(both * 8 < a.len(), "{both} of {} collisions are common to both seeds", a.len());
    }
}
