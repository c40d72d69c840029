//! A hash function for line numbers: one multiplication, and the same result in each run.

use std::hash::{BuildHasherDefault, Hasher};

/// Hashes keys that are one number.
#[derive(Default)]
pub struct OneNumber(u64);

/// Builds a [`OneNumber`].
pub type LineHasher = BuildHasherDefault<OneNumber>;

impl Hasher for OneNumber {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_usize(usize::from(*byte)));
    }

    fn write_usize(&mut self, number: usize) {
        self.0 = (self.0 ^ number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(26);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
