//! The futex words of one worker.

use std::ops::Range;
use std::sync::atomic::AtomicU32;

/// Words in one contiguous array, like perf's `calloc(nfutexes, sizeof(u32))`, or further apart.
pub struct Words {
    memory: Vec<AtomicU32>,
    step: usize,
    count: usize,
}

impl Words {
    /// Makes `count` words of value 0. Each begins `stride_bytes`, a multiple of 4, after the one before.
    pub fn new(count: usize, stride_bytes: usize) -> Words {
        let step = stride_bytes / size_of::<AtomicU32>();
        let memory = (0..count * step).map(|_| AtomicU32::new(0)).collect();
        Words { memory, step, count }
    }

    /// Number of words.
    pub fn count(&self) -> usize {
        self.count
    }

    /// A range of the words, in order.
    #[inline(always)]
    pub fn range(&self, numbers: Range<usize>) -> impl Iterator<Item = &AtomicU32> {
        let memory = &self.memory[numbers.start * self.step..numbers.end * self.step];
        memory.chunks_exact(self.step).map(|chunk| &chunk[0])
    }

    /// One of the words.
    #[inline]
    pub fn word(&self, number: usize) -> &AtomicU32 {
        &self.memory[number * self.step]
    }
}
