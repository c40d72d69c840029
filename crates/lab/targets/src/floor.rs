//! A lower bound for the targets of `hash` and `wake` that use a bucket: the CPU's cost of locking and unlocking it.
//!
//! Each operation finds a bucket by its word's address, locks it with one compare-and-swap, and unlocks it with one
//! store. Waiting is not implemented.

use super::{Futex, Target, Waited};
use std::sync::atomic::{AtomicU32, Ordering};

/// The lab's other targets have at least as many buckets.
const BUCKETS_MIN: usize = 16;

/// A bucket on a cache line of its own, like the engine's.
#[repr(align(64))]
#[derive(Default)]
struct Bucket(AtomicU32);

/// An array of buckets.
pub struct Floor(Box<[Bucket]>);

impl Floor {
    /// Rounds `buckets` up to a power of two.
    pub fn new(buckets: usize) -> Floor {
        let buckets = buckets.max(BUCKETS_MIN).next_power_of_two();
        Floor((0..buckets).map(|_| Bucket::default()).collect())
    }

    #[inline(always)]
    fn lock_and_unlock(&self, word: &AtomicU32) {
        // As in the engine, the words of a cache line share a bucket. Fibonacci hashing spreads the lines.
        let spread = (word.as_ptr() as usize / size_of::<Bucket>()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let index = (spread >> 32) & (self.0.len() - 1);
        let lock = &self.0[index].0;
        // [Le]: the orderings of the engine's lock, because they are what is measured.
        while lock.compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            std::hint::spin_loop();
        }
        lock.store(0, Ordering::Release); // [Le]
    }
}

impl Target for Floor {
    #[inline(always)]
    fn wait(&self, word: &AtomicU32, _expected: u32) -> Waited {
        self.lock_and_unlock(word);
        Waited::Differs
    }

    #[inline(always)]
    fn wake(&self, word: &AtomicU32) -> usize {
        self.lock_and_unlock(word);
        0
    }

    fn wake_many(&self, word: &AtomicU32, _count: usize) -> usize {
        self.wake(word)
    }

    fn cmp_requeue(&self, _from: &AtomicU32, _to: &AtomicU32, _count: usize) -> usize {
        0
    }

    fn buckets(&self) -> Option<usize> {
        Some(self.0.len())
    }
}

impl Futex for Floor {
    type Task = ();

    fn task(&self) {}
}
