//! Seeds that other programs cannot guess.

/// A seed. Without `std` there is no source of chance: then it is derived from `address` alone, and can be guessed.
#[cfg(feature = "std")]
pub fn seed(address: usize) -> u64 {
    use core::hash::BuildHasher;
    // The standard library draws these keys from the operating system.
    std::hash::RandomState::new().hash_one(address)
}

#[cfg(not(feature = "std"))]
pub fn seed(address: usize) -> u64 {
    address as u64
}

/// One step of SplitMix64: spreads a seed over all bits.
pub const fn mixed(seed: u64) -> u64 {
    let mut x = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
