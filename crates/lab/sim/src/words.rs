//! The futex words of virtual threads: guest memory with the same addresses in each run.

use crate::engine::{Memory, Word};
use ufutex_coherence::atomic::{AtomicU32, Ordering};
use ufutex_coherence::objects::{self, Field};
use ufutex_coherence::{current, memory};

/// Address of the first thread's words.
const BASE: u64 = 0x7f00_0000_0000;
const WORD: usize = size_of::<AtomicU32>();
const LINE: usize = 64;
const PAGE: usize = 4096;

/// A separate run of pages for each thread's words.
pub struct Words {
    words: Vec<AtomicU32>,
    /// Distance from a thread's first word to the next thread's, in words of `words`.
    step: usize,
    /// The same distance in the addresses that the engine gets.
    guest_step: usize,
    /// Distance from a word to the next in the addresses that the engine gets, in words.
    guest_stride: usize,
    /// Number of words of a thread.
    count: usize,
    /// Nanoseconds that reading a word takes beyond the memory access.
    read_ns: f64,
}

impl Words {
    /// Makes `count` words of value 0 for each of `threads` threads, contiguous as in perf's array.
    pub fn new(threads: usize, count: usize) -> Self {
        Self::make(threads, count, 1)
    }

    /// Makes the same contiguous words, with addresses a cache line apart for the engine. The kernel hashes each word.
    /// The engine hashes cache lines while its table is small, so words of one line share a bucket. For comparisons
    /// with the kernel's figures, this spreads the words as the kernel does.
    pub fn as_if_by_line(threads: usize, count: usize) -> Self {
        Self::make(threads, count, LINE / WORD)
    }

    /// Sets the time that reading a word takes beyond the access. A kernel has to enable access to user memory.
    pub fn read_ns(self, read_ns: f64) -> Self {
        Self { read_ns, ..self }
    }

    fn make(threads: usize, count: usize, guest_stride: usize) -> Self {
        let pages = |words: usize| (words * WORD).next_multiple_of(PAGE) / WORD;
        let (step, guest_step) = (pages(count), pages(count * guest_stride));
        let words: Vec<_> = memory::by_line(|| (0..threads * step).map(|_| AtomicU32::new(0)).collect());
        objects::name(
            words.as_ptr().addr(),
            WORD,
            words.len(),
            "word",
            &[Field { offset: 0, bytes: WORD, name: "value" }],
        );
        Self { words, step, guest_step, guest_stride, count, read_ns: 0.0 }
    }

    /// A word of a thread, for the engine.
    #[inline]
    pub fn word(&self, thread: usize, number: usize) -> Word<'_> {
        let offset = (thread * self.guest_step + number * self.guest_stride) * WORD;
        Word { memory: self, address: BASE + offset as u64 }
    }

    /// A word of a thread, for direct access.
    pub fn host(&self, thread: usize, number: usize) -> &AtomicU32 {
        &self.words[thread * self.step + number]
    }

    /// Number of words of a thread.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Brings the running thread's words into its caches.
    pub fn warm_up(&self) {
        let first = current::thread() * self.step;
        for line in self.words[first..first + self.count].chunks(LINE / WORD) {
            line[0].store(0, Ordering::Relaxed);
        }
    }

    #[inline]
    fn at(&self, address: u64) -> Option<&AtomicU32> {
        let guest = address.checked_sub(BASE)? as usize / WORD;
        let (thread, number) = (guest / self.guest_step, guest % self.guest_step / self.guest_stride);
        self.words.get(thread * self.step + number)
    }
}

impl Memory for Words {
    #[inline]
    fn load(&self, address: u64) -> Option<u32> {
        current::compute(self.read_ns);
        Some(self.at(address)?.load(Ordering::Acquire))
    }

    fn compare_exchange(&self, address: u64, current: u32, new: u32) -> Option<Result<u32, u32>> {
        Some(self.at(address)?.compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire))
    }
}
