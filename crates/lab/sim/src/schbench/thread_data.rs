//! What schbench's threads share: its array of `thread_data`, as it lies in cache lines.
//!
//! schbench gets the array from calloc, a message thread and then its workers, and again. What a thread's partner touches are three
//! fields near the beginning: the list's link (of a message thread: its first link), the time of the wake, and the futex. The
//! rest of the structure, more than a megabyte, is the thread's own, and is not modelled: here a thread has two lines.

use ufutex_coherence::atomic::{AtomicU32, Ordering};
use ufutex_coherence::objects::{self, Field};
use ufutex_coherence::{current, memory};
use ufutex_sim::{Access, Fault, Guest, UserMemory, Width};

const WORD: usize = size_of::<AtomicU32>();
const LINE: usize = 64;

/// Bytes from one thread's structure to the next: a few words, two histograms of 4864 counts, a megabyte for `-p`.
const APART: usize = 1_087_632;
/// calloc's own words before the first one, which begins a page.
const FIRST: usize = 16;
/// Where the fields are.
const NEXT: usize = 24;
const WAKE_TIME: usize = 48;
const FUTEX: usize = 64;

/// Where the array begins, as the engine is told it.
const BASE: usize = 0x7f00_0000_0000;
/// Lines that hold all three fields, wherever in its line a structure begins.
const SLOT: usize = 2 * LINE;

/// All threads' structures, by their numbers in the array.
pub struct ThreadData {
    words: Vec<AtomicU32>,
    /// What the kernel takes to read a futex beside the access, with the bucket locked, in nanoseconds.
    read_ns: f64,
}

impl ThreadData {
    /// Of so many threads, with what a kernel takes to read a futex.
    pub fn new(threads: usize, read_ns: f64) -> Self {
        const FIELDS: &[Field] =
            &[Field { offset: 0, bytes: LINE, name: "link" }, Field { offset: LINE, bytes: LINE, name: "futex" }];
        let words: Vec<_> = memory::by_line(|| (0..threads * SLOT / WORD).map(|_| AtomicU32::new(0)).collect());
        objects::name(words.as_ptr().addr(), SLOT, threads, "thread_data", FIELDS);
        Self { words, read_ns }
    }

    /// What reading a futex takes, beside the access, in nanoseconds.
    pub fn read_ns(&self) -> f64 {
        self.read_ns
    }

    /// A worker's link to the next one on the list, or a message thread's first link: a thread's number from 1, or 0.
    pub fn next(&self, thread: usize) -> &AtomicU32 {
        self.at(thread, NEXT)
    }

    /// When it was woken.
    pub fn wake_time(&self, thread: usize) -> &AtomicU32 {
        self.at(thread, WAKE_TIME)
    }

    /// What it sleeps on, as the program sees it.
    pub fn futex(&self, thread: usize) -> &AtomicU32 {
        self.at(thread, FUTEX)
    }

    /// The same as the engine is told it.
    pub fn word(&self, thread: usize) -> Guest<'_, Self> {
        let address = BASE + FIRST + thread * APART + FUTEX;
        Guest::new(self, address as u64, Width::U32).expect("the structures begin at multiples of eight bytes")
    }

    fn at(&self, thread: usize, field: usize) -> &AtomicU32 {
        let begin = (FIRST + thread * APART) % LINE;
        &self.words[(thread * SLOT + begin + field) / WORD]
    }

    fn futex_at(&self, address: u64) -> Result<&AtomicU32, Fault> {
        let offset = (address as usize).checked_sub(BASE + FIRST + FUTEX).ok_or(Fault)?;
        Ok(self.futex(offset / APART))
    }
}

impl UserMemory for ThreadData {
    fn load(&self, address: u64, _width: Width) -> Result<u64, Fault> {
        current::compute(self.read_ns);
        Ok(self.futex_at(address)?.load(Ordering::Acquire).into())
    }

    fn compare_exchange(&self, address: u64, _width: Width, current: u64, new: u64) -> Result<Result<u64, u64>, Fault> {
        let (done, not) = (Ordering::AcqRel, Ordering::Acquire);
        let result = self.futex_at(address)?.compare_exchange(current as u32, new as u32, done, not);
        Ok(result.map(u64::from).map_err(u64::from))
    }

    fn fault_in(&self, _address: u64, _access: Access) -> Result<(), Fault> {
        Err(Fault)
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
        // The structures begin 16, 32, 48 and 0 bytes into a line, in turn.
        assert_eq!([lines(0), lines(1), lines(2), lines(3)], [[0, 1, 1], [2, 3, 3], [5, 5, 5], [6, 6, 7]]);
        assert_eq!(lines(4), [8, 9, 9], "and so on");
    }

    #[test]
    fn the_engine_is_told_the_program_s_word() {
        let data = ThreadData::new(3, 0.0);
        data.futex(2).store(7, Ordering::Relaxed);
        let at = |thread: usize| (BASE + FIRST + thread * APART + FUTEX) as u64;
        assert_eq!([data.load(at(1), Width::U32), data.load(at(2), Width::U32)], [Ok(0), Ok(7)]);
        assert_eq!(data.compare_exchange(at(2), Width::U32, 7, 9), Ok(Ok(7)));
        assert_eq!(data.futex(2).load(Ordering::Relaxed), 9);
    }
}
