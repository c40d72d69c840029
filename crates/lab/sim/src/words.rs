//! The futex words of virtual threads: a guest's memory, whose addresses are the same each time.

use ufutex_coherence::atomic::{AtomicU32, Ordering};
use ufutex_coherence::objects::{self, Field};
use ufutex_coherence::{current, memory};
use ufutex_sim::{Access, Fault, Guest, UserMemory, Width};

/// Where the words of the first thread begin.
const BASE: u64 = 0x7f00_0000_0000;
const WORD: usize = size_of::<AtomicU32>();
const LINE: usize = 64;
const PAGE: usize = 4096;

/// A piece of memory for each thread, pages apart from the next.
pub struct Words {
    words: Vec<AtomicU32>,
    /// From the first word of a thread to the first of the next, …
    step: usize,
    /// … and as the engine is told of them.
    told_step: usize,
    /// From a word to the next as the engine is told.
    told_stride: usize,
    /// Words of a thread.
    count: usize,
    /// What reading one takes beside the access, in nanoseconds.
    read_ns: f64,
}

impl Words {
    /// `count` words of value 0 for each of so many threads, side by side as in perf's array.
    pub fn new(threads: usize, count: usize) -> Self {
        Self::make(threads, count, 1)
    }

    /// As many, side by side too, while the engine is told that each is in a line of its own. The kernel hashes words; ours
    /// hashes the lines that they are in as long as a table is small, so that words of one line share a bucket. Where
    /// the kernel's figures are modelled, this spreads both alike.
    pub fn as_if_by_line(threads: usize, count: usize) -> Self {
        Self::make(threads, count, LINE / WORD)
    }

    /// Reading one takes so much longer: a kernel has to let itself at a program's memory first.
    pub fn read_ns(self, read_ns: f64) -> Self {
        Self { read_ns, ..self }
    }

    fn make(threads: usize, count: usize, told_stride: usize) -> Self {
        let pages = |words: usize| (words * WORD).next_multiple_of(PAGE) / WORD;
        let (step, told_step) = (pages(count), pages(count * told_stride));
        let words: Vec<_> = memory::by_line(|| (0..threads * step).map(|_| AtomicU32::new(0)).collect());
        objects::name(
            words.as_ptr().addr(),
            WORD,
            words.len(),
            "word",
            &[Field { offset: 0, bytes: WORD, name: "value" }],
        );
        Self { words, step, told_step, told_stride, count, read_ns: 0.0 }
    }

    /// A word of a thread, as the engine is told it.
    #[inline]
    pub fn word(&self, thread: usize, number: usize) -> Guest<'_, Self> {
        let offset = (thread * self.told_step + number * self.told_stride) * WORD;
        Guest::new(self, BASE + offset as u64, Width::U32).expect("words of four bytes lie at multiples of four")
    }

    /// The same, as a program sees it.
    pub fn host(&self, thread: usize, number: usize) -> &AtomicU32 {
        &self.words[thread * self.step + number]
    }

    /// How many a thread has.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The running thread has its words in its caches from now on.
    pub fn warm_up(&self) {
        let first = current::thread() * self.step;
        for line in self.words[first..first + self.count].chunks(LINE / WORD) {
            line[0].store(0, Ordering::Relaxed);
        }
    }

    #[inline]
    fn at(&self, address: u64) -> Result<&AtomicU32, Fault> {
        let told = address.checked_sub(BASE).ok_or(Fault)? as usize / WORD;
        let (thread, number) = (told / self.told_step, told % self.told_step / self.told_stride);
        self.words.get(thread * self.step + number).ok_or(Fault)
    }
}

impl UserMemory for Words {
    #[inline]
    fn load(&self, address: u64, _width: Width) -> Result<u64, Fault> {
        current::compute(self.read_ns);
        Ok(self.at(address)?.load(Ordering::Acquire).into())
    }

    fn compare_exchange(&self, address: u64, _width: Width, current: u64, new: u64) -> Result<Result<u64, u64>, Fault> {
        let (done, not) = (Ordering::AcqRel, Ordering::Acquire);
        let result = self.at(address)?.compare_exchange(current as u32, new as u32, done, not);
        Ok(result.map(u64::from).map_err(u64::from))
    }

    fn fault_in(&self, _address: u64, _access: Access) -> Result<(), Fault> {
        Err(Fault)
    }
}
