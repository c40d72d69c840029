//! `scaled`: Linux since 6.15. One hash for all processes, sized by the number of CPUs, with a lock in each bucket.
//!
//! An ID is reserved by inserting a timer that is not valid yet, which only other insertions see. The timer becomes
//! valid when all its fields have been written (`process.rs`).

use crate::chain::{self, Chain};
use crate::process::Index;
use crate::spin::Spin;
use crate::timer::Timer;

const BUCKETS_PER_CPU: usize = 512;

/// Four buckets fit into a cache line.
#[repr(C, align(16))]
struct Bucket {
    lock: Spin,
    chain: Chain,
}

const _: () = assert!(size_of::<Bucket>() == 16);

/// The hash.
pub struct Scaled {
    buckets: Vec<Bucket>,
}

impl Scaled {
    /// Makes an empty hash for a machine with `cpus` CPUs.
    pub fn new(cpus: usize) -> Scaled {
        let count = (BUCKETS_PER_CPU * cpus).next_power_of_two();
        Scaled {
            buckets: (0..count).map(|number| Bucket { lock: Spin::default(), chain: Chain::new(number) }).collect(),
        }
    }

    #[inline]
    pub(super) fn number(&self, owner: usize, id: i32) -> usize {
        hash(owner, id) as usize & (self.buckets.len() - 1)
    }
}

impl Index for Scaled {
    #[inline]
    fn insert(&self, owner: usize, id: i32, timer: &Timer) -> bool {
        let number = self.number(owner, id);
        let bucket = &self.buckets[number];
        let _held = bucket.lock.lock();
        if bucket.chain.find(number, |timer| timer.holds(owner, id)).is_some() {
            return false;
        }
        bucket.chain.push(timer);
        true
    }

    #[inline]
    fn find(&self, owner: usize, id: i32) -> Option<&Timer> {
        let number = self.number(owner, id);
        self.buckets[number].chain.find(number, |timer| timer.is(owner, id))
    }

    #[inline]
    fn remove(&self, owner: usize, id: i32, timer: &Timer) {
        let _held = self.buckets[self.number(owner, id)].lock.lock();
        chain::unlink(timer);
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.buckets)
    }

    #[cfg(feature = "sim")]
    fn name(&self) {
        crate::names::name("bucket", &self.buckets);
    }
}

/// Hashes three words with the last rounds of Bob Jenkins's hash, as the kernel's jhash2. Each round mixes one word
/// into another.
#[inline]
fn hash(owner: usize, id: i32) -> u32 {
    let start = 0xDEAD_BEEF + (3 << 2);
    let mut words = [owner as u32, (owner as u64 >> 32) as u32, id as u32].map(|word| word.wrapping_add(start));
    let rounds = [(2, 1, 14), (0, 2, 11), (1, 0, 25), (2, 1, 16), (0, 2, 4), (1, 0, 14), (2, 1, 24)];
    for (to, from, bits) in rounds {
        words[to] = (words[to] ^ words[from]).wrapping_sub(words[from].rotate_left(bits));
    }
    words[2]
}
