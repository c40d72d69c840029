//! The memory that schbench's threads share: its array of `thread_data`, laid out in cache lines as there.
//!
//! schbench allocates the array with calloc: a message thread, its workers, the next message thread. Other threads
//! access three fields near its beginning: the list's link (in a message thread, its head), the time of the wake, and
//! the futex. The rest, more than a megabyte, is the thread's own and not modelled: a thread has two lines here.

use crate::engine::{Memory, Word};
use ufutex_coherence::atomic::{AtomicU32, Ordering};
use ufutex_coherence::objects::{self, Field};
use ufutex_coherence::{current, memory};

const WORD: usize = size_of::<AtomicU32>();
const LINE: usize = 64;

/// Bytes from one thread's structure to the next: some words, two histograms of 4864 counts, and a megabyte for `-p`.
const APART: usize = 1_087_632;
/// Bytes of calloc's header before the first structure. The header begins a page.
const FIRST: usize = 16;
/// Offsets of the fields in a structure.
const NEXT: usize = 24;
const WAKE_TIME: usize = 48;
const FUTEX: usize = 64;

/// Address of the array, for the engine.
const BASE: usize = 0x7f00_0000_0000;
/// Bytes that hold all three fields, wherever in its first line a structure begins.
const SLOT: usize = 2 * LINE;

/// The structures of all threads, by number in the array.
pub struct ThreadData {
    words: Vec<AtomicU32>,
    /// Nanoseconds, beyond the memory access, that the kernel takes to read a futex with the bucket locked.
    read_ns: f64,
}

impl ThreadData {
    /// Makes the structures of this many threads.
    pub fn new(threads: usize, read_ns: f64) -> Self {
        const FIELDS: &[Field] =
            &[Field { offset: 0, bytes: LINE, name: "link" }, Field { offset: LINE, bytes: LINE, name: "futex" }];
        let words: Vec<_> = memory::by_line(|| (0..threads * SLOT / WORD).map(|_| AtomicU32::new(0)).collect());
        objects::name(words.as_ptr().addr(), SLOT, threads, "thread_data", FIELDS);
        Self { words, read_ns }
    }

    /// Nanoseconds that reading a futex takes beyond the memory access.
    pub fn read_ns(&self) -> f64 {
        self.read_ns
    }

    /// A worker's link to the next one on the list, or a message thread's first link: a thread's number + 1, or 0.
    pub fn next(&self, thread: usize) -> &AtomicU32 {
        self.at(thread, NEXT)
    }

    /// The time at which the thread was woken.
    pub fn wake_time(&self, thread: usize) -> &AtomicU32 {
        self.at(thread, WAKE_TIME)
    }

    /// The futex on which the thread sleeps, for direct access.
    pub fn futex(&self, thread: usize) -> &AtomicU32 {
        self.at(thread, FUTEX)
    }

    /// The futex on which the thread sleeps, for the engine.
    pub fn word(&self, thread: usize) -> Word<'_> {
        let address = BASE + FIRST + thread * APART + FUTEX;
        Word { memory: self, address: address as u64 }
    }

    fn at(&self, thread: usize, field: usize) -> &AtomicU32 {
        let begin = (FIRST + thread * APART) % LINE;
        &self.words[(thread * SLOT + begin + field) / WORD]
    }

    fn futex_at(&self, address: u64) -> Option<&AtomicU32> {
        let offset = (address as usize).checked_sub(BASE + FIRST + FUTEX)?;
        Some(self.futex(offset / APART))
    }
}

impl Memory for ThreadData {
    fn load(&self, address: u64) -> Option<u32> {
        current::compute(self.read_ns);
        Some(self.futex_at(address)?.load(Ordering::Acquire))
    }

    fn compare_exchange(&self, address: u64, current: u32, new: u32) -> Option<Result<u32, u32>> {
        Some(self.futex_at(address)?.compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_share_lines_as_in_schbenchs_array() {
        let data = ThreadData::new(5, 0.0);
        let line = |field: &AtomicU32| (field.as_ptr().addr() - data.words.as_ptr().addr()) / LINE;
        let lines = |thread| [data.next(thread), data.wake_time(thread), data.futex(thread)].map(line);
        // The structures begin at offsets 16, 32, 48 and 0 of a line, in turn.
        assert_eq!([lines(0), lines(1), lines(2), lines(3)], [[0, 1, 1], [2, 3, 3], [5, 5, 5], [6, 6, 7]]);
        assert_eq!(lines(4), [8, 9, 9], "and so on");
    }

    #[test]
    fn the_engine_gets_the_program_s_word() {
        let data = ThreadData::new(3, 0.0);
        data.futex(2).store(7, Ordering::Relaxed);
        let at = |thread: usize| (BASE + FIRST + thread * APART + FUTEX) as u64;
        assert_eq!([data.load(at(1)), data.load(at(2))], [Some(0), Some(7)]);
        assert_eq!(data.compare_exchange(at(2), 7, 9), Some(Ok(7)));
        assert_eq!(data.futex(2).load(Ordering::Relaxed), 9);
    }
}
