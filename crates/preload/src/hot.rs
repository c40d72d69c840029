//! The words that a program's futex calls name most often, counted in bounded memory.
//!
//! Space-saving, in small sets: a word belongs to one set of [`WAYS`] counters, by a hash of its address. A word without a
//! counter takes over the one with the fewest calls and counts on from there. So a word's count is never too low, and too
//! high by at most what the counter had when it was taken over: what is certain is the difference.
//!
//! Threads count with relaxed operations in one array: no locks, no memory, nothing that a signal could find half done. Two
//! threads that take over one counter at the same time may leave a call with the wrong word. As long as a few hundred words are
//! used nothing is taken over, and counts are exact.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::vec::Vec;

/// Counters of a set: with their addresses two cache lines, a third for what is not certain.
const WAYS: usize = 8;
/// Sets, 2^9: 4096 counters in 96 KiB, of which those pages exist that are written to.
const SETS_LOG2: u32 = 9;

/// Which words are named most often. All zeroes at first.
pub struct Hot {
    sets: [Set; 1 << SETS_LOG2],
}

#[repr(align(64))]
struct Set {
    /// Addresses; 0 for none.
    words: [AtomicU64; WAYS],
    calls: [AtomicU64; WAYS],
    /// What a counter had when its word took it over.
    doubtful: [AtomicU64; WAYS],
}

/// A word, and how many calls named it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Word {
    /// Its address.
    pub address: u64,
    /// No fewer calls than there were.
    pub calls_at_most: u64,
    /// So many calls for certain.
    pub calls_at_least: u64,
}

impl Hot {
    /// Counts a call that names the word. May be interrupted anywhere, by whoever counts too.
    #[inline]
    pub fn count(&self, address: u64) {
        // Words are aligned, and often neighbours: the multiplication spreads all bits upwards, where the index is taken.
        let mixed = address.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.sets[(mixed >> (u64::BITS - SETS_LOG2)) as usize].count(address);
    }

    /// The words with the most calls, at most so many, those with the most first. Left out are words that may as well have
    /// been named only by the call that took over their counter.
    pub fn top(&self, most: usize) -> Vec<Word> {
        let mut words: Vec<Word> = self.sets.iter().flat_map(Set::words).filter(Word::is_known).collect();
        words.sort_unstable_by_key(|word| core::cmp::Reverse((word.calls_at_least, word.calls_at_most)));
        words.truncate(most);
        words
    }
}

impl Hot {
    /// How many words were named: no fewer than this, and exactly as many if nothing was taken over.
    pub fn words(&self) -> (u64, bool) {
        let all = || self.sets.iter().flat_map(Set::words);
        let is_exact = self.sets.iter().flat_map(|set| &set.doubtful).all(|doubtful| doubtful.load(Relaxed) == 0);
        (all().count() as u64, is_exact)
    }
}

impl Word {
    fn is_known(&self) -> bool {
        self.calls_at_least > 1 || self.calls_at_least == self.calls_at_most
    }
}

impl Set {
    fn count(&self, address: u64) {
        let way = self.words.iter().position(|word| word.load(Relaxed) == address);
        let way = way.unwrap_or_else(|| self.take_over(address));
        self.calls[way].fetch_add(1, Relaxed);
    }

    /// The counter for a word that had none.
    #[cold]
    fn take_over(&self, address: u64) -> usize {
        let (mut way, mut fewest) = (0, u64::MAX);
        for (i, calls) in self.calls.iter().enumerate() {
            let calls = calls.load(Relaxed);
            if calls < fewest {
                (way, fewest) = (i, calls);
            }
        }
        let before = self.words[way].load(Relaxed);
        // Who comes second counts for the word of the first: a call with the wrong word, but no counter is lost.
        if self.words[way].compare_exchange(before, address, Relaxed, Relaxed).is_ok() {
            self.doubtful[way].store(fewest, Relaxed);
        }
        way
    }

    fn words(&self) -> impl Iterator<Item = Word> {
        (0..WAYS).filter_map(|way| {
            let address = self.words[way].load(Relaxed);
            let calls_at_most = self.calls[way].load(Relaxed);
            let calls_at_least = calls_at_most.saturating_sub(self.doubtful[way].load(Relaxed));
            (address != 0 && calls_at_most != 0).then_some(Word { address, calls_at_most, calls_at_least })
        })
    }
}
