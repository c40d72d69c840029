//! The floor below all targets of `hash` and `wake` that go through a bucket: what the processor takes for locking a bucket, and nothing else.
//!
//! Each operation finds a bucket by its word's address, locks it with one compare-and-swap and unlocks it with one store.
//! Nobody can sleep here.

use super::{Futex, Waited};
use std::sync::atomic::{AtomicU32, Ordering};

/// As every other target of the lab has, at least.
const BUCKETS_MIN: usize = 16;

/// A line of its own, as the engine's buckets have.
#[repr(align(64))]
#[derive(Default)]
struct Bucket(AtomicU32);

/// An array of buckets.
pub struct Floor(Box<[Bucket]>);

impl Floor {
    /// `buckets` is rounded up to a power of two.
    pub fn new(buckets: usize) -> Floor {
        let buckets = buckets.max(BUCKETS_MIN).next_power_of_two();
        Floor((0..buckets).map(|_| Bucket::default()).collect())
    }

    #[inline(always)]
    fn lock_and_unlock(&self, word: &AtomicU32) {
        // By cache line, as the engine: the words of a line share a bucket. Fibonacci hashing spreads the lines.
        let spread = (word.as_ptr() as usize / size_of::<Bucket>()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let index = (spread >> 32) & (self.0.len() - 1);
        let lock = &self.0[index].0;
        while lock.compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            std::hint::spin_loop();
        }
        lock.store(0, Ordering::Release);
    }
}

impl Futex for Floor {
    type Task = ();

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

    fn task(&self) {}

    fn buckets(&self) -> Option<usize> {
        Some(self.0.len())
    }
}
