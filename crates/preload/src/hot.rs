//! The words that a program's futex calls name most often, counted in bounded memory, and for how long threads slept for each.
//!
//! Space-saving counters, in small sets: a word belongs to one set of [`WAYS`] counters, by a hash of its address. A
//! word without a counter takes over the counter with the fewest calls in its set and counts on from there. So a word's
//! count is never too low, and too high by at most the count that the counter had when it was taken over. The
//! difference is certain.
//!
//! Threads count with relaxed operations in one array: no locks, no allocation, and no state that a signal could find
//! half done. Two threads that take over one counter at the same time may count a call for the wrong word. As long as
//! only a few hundred words are used, no counter is taken over, and counts are exact.

use core::cmp::Reverse;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::vec::Vec;

use serde::{Serialize, Serializer};

/// Counters per set: with their addresses two cache lines. Only takeovers and waits that sleep write the others.
const WAYS: usize = 8;
/// log2 of the number of sets: 4096 counters in 1.7 MiB, of which only the pages that are written to take memory.
const SETS_LOG2: u32 = 9;
/// Lengths of waits are told apart four to an octave, from 4 microseconds to 15 seconds.
const LENGTHS: usize = 4 * 22;
/// log2 of the first length, in nanoseconds.
const FIRST_LOG2: u32 = 12;

/// Counts which words are named most often. All zeroes at first.
pub struct Hot {
    sets: [Set; 1 << SETS_LOG2],
}

#[repr(align(64))]
struct Set {
    /// Addresses. 0 means that the counter is free.
    words: [AtomicU64; WAYS],
    calls: [AtomicU64; WAYS],
    /// The count that a counter had when its word took it over.
    doubtful: [AtomicU64; WAYS],
    /// How often threads slept for the word, for how long in all, and for how long at most, in nanoseconds.
    waits: [AtomicU64; WAYS],
    waited_ns: [AtomicU64; WAYS],
    longest_ns: [AtomicU64; WAYS],
    /// The number of threads that sleep for the word, and the greatest number so far.
    sleeping: [AtomicU64; WAYS],
    sleeping_most: [AtomicU64; WAYS],
    /// The sum of the times at which the threads that sleep began to.
    sleeping_since: [AtomicU64; WAYS],
    /// When the present time with sleepers began, and the length of those before it, in nanoseconds.
    busy_since: [AtomicU64; WAYS],
    busy_ns: [AtomicU64; WAYS],
    /// Number of waiters woken by calls, and of those moved to another word.
    woken: [AtomicU64; WAYS],
    requeued: [AtomicU64; WAYS],
    /// How many waits had each [`length`].
    lengths: [[AtomicU32; LENGTHS]; WAYS],
}

/// A word, how many calls named it, and for how long threads slept for it.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Word {
    /// Its address, as text, since many readers of JSON cannot represent numbers beyond 2^53.
    #[serde(serialize_with = "hexadecimal")]
    pub address: u64,
    /// An upper bound of the number of calls.
    pub calls_at_most: u64,
    /// A lower bound of the number of calls.
    pub calls_at_least: u64,
    /// How often threads slept for it since it had its counter.
    pub waits: u64,
    /// For how long in all, in nanoseconds.
    pub waited_ns: u64,
    /// What 99 of 100 waits did not exceed, in nanoseconds: up to a quarter too high.
    pub p99_ns: u64,
    /// For how long at most, in nanoseconds.
    pub longest_ns: u64,
    /// How many threads slept for it at a time, at most.
    pub waiters_most: u64,
    /// How many on average, while there were any.
    pub waiters_mean: f64,
    /// How many waiters calls have woken.
    pub wakes: u64,
    /// How many they have moved to another word.
    pub requeues: u64,
}

fn hexadecimal<S: Serializer>(address: &u64, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&format_args!("{address:#x}"))
}

impl Hot {
    /// Counts a call that names the word. May be interrupted anywhere, also by a handler that counts.
    #[inline]
    pub fn count(&self, address: u64) {
        self.set(address).count(address);
    }

    /// Notes that a thread begins to sleep for the word, which a call has named before. A thread that is cancelled meanwhile stays
    /// counted.
    pub fn sleeps(&self, address: u64, now: u64) {
        let set = self.set(address);
        let Some(way) = set.way(address) else { return };
        let sleeping = set.sleeping[way].fetch_add(1, Relaxed) + 1;
        if sleeping == 1 {
            set.busy_since[way].store(now, Relaxed);
        }
        set.sleeping_since[way].fetch_add(now, Relaxed);
        set.sleeping_most[way].fetch_max(sleeping, Relaxed);
    }

    /// Notes that a thread has slept for the word.
    pub fn slept(&self, address: u64, since: u64, now: u64) {
        let set = self.set(address);
        let Some(way) = set.way(address) else { return };
        let (ns, busy_since) = (now.saturating_sub(since), set.busy_since[way].load(Relaxed));
        // The number is 0 if the word lost its counter while the thread slept, and then got one again.
        if let Ok(sleeping) = set.sleeping[way].fetch_update(Relaxed, Relaxed, |sleeping| sleeping.checked_sub(1)) {
            set.sleeping_since[way].fetch_sub(since, Relaxed);
            if sleeping == 1 {
                set.busy_ns[way].fetch_add(now.saturating_sub(busy_since), Relaxed);
            }
        }
        set.waits[way].fetch_add(1, Relaxed);
        set.waited_ns[way].fetch_add(ns, Relaxed);
        set.longest_ns[way].fetch_max(ns, Relaxed);
        set.lengths[way][length(ns)].fetch_add(1, Relaxed);
    }

    /// Notes what a call has done to waiters for the word, which it has named before.
    pub fn changed(&self, address: u64, woken: u64, requeued: u64) {
        let set = self.set(address);
        let Some(way) = set.way(address) else { return };
        set.woken[way].fetch_add(woken, Relaxed);
        set.requeued[way].fetch_add(requeued, Relaxed);
    }

    fn set(&self, address: u64) -> &Set {
        // Words are aligned, and often neighbours: the multiplication spreads all bits upwards. The index is made of
        // the upper bits.
        let mixed = address.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.sets[(mixed >> (u64::BITS - SETS_LOG2)) as usize]
    }

    /// At most `most` words: half of them those for which threads slept longest, the others those with the most calls of the rest; by
    /// the time slept. Leaves out words that may have been named only by the call that took over their counter.
    pub fn top(&self, most: usize, now: u64) -> Vec<Word> {
        let mut words: Vec<Word> = self.sets.iter().flat_map(|set| set.words(now)).filter(Word::is_known).collect();
        let by_calls = |word: &Word| Reverse((word.calls_at_least, word.calls_at_most));
        let by_time = |word: &Word| (Reverse(word.waited_ns), by_calls(word));
        words.sort_unstable_by_key(by_time);
        // Half of the places are for those with the most calls, which may not sleep.
        let half = words.len().min(most / 2);
        words[half..].sort_unstable_by_key(by_calls);
        words.truncate(most);
        words.sort_unstable_by_key(by_time);
        words
    }
}

/// The place in `lengths` at which a wait of this length is counted.
fn length(ns: u64) -> usize {
    let ns = ns.max(1 << FIRST_LOG2);
    let octave = ns.ilog2();
    let quarter = ns >> (octave - 2) & 3;
    (4 * (octave - FIRST_LOG2) as usize + quarter as usize).min(LENGTHS - 1)
}

/// The longest wait that is counted at this place, in nanoseconds. The last place counts all longer waits too, and has no longest one.
fn longest(length: usize) -> u64 {
    ((5 + length as u64 % 4) << (length / 4 + FIRST_LOG2 as usize - 2)) - 1
}

impl Hot {
    /// Calls that named the word with the most calls: a lower bound.
    pub fn most_calls(&self) -> u64 {
        self.sets.iter().flat_map(|set| set.words(0)).map(|word| word.calls_at_least).max().unwrap_or(0)
    }

    /// The number of words that were named, and whether it is exact. It is exact if no counter was taken over;
    /// otherwise it is a lower bound.
    pub fn words(&self) -> (u64, bool) {
        let all = self.sets.iter().flat_map(|set| set.words(0));
        let is_exact = self.sets.iter().flat_map(|set| &set.doubtful).all(|doubtful| doubtful.load(Relaxed) == 0);
        (all.count() as u64, is_exact)
    }
}

impl Word {
    fn is_known(&self) -> bool {
        self.calls_at_least > 1 || self.calls_at_least == self.calls_at_most
    }
}

impl Set {
    fn count(&self, address: u64) {
        let way = self.way(address).unwrap_or_else(|| self.take_over(address));
        self.calls[way].fetch_add(1, Relaxed);
    }

    fn way(&self, address: u64) -> Option<usize> {
        self.words.iter().position(|word| word.load(Relaxed) == address)
    }

    /// Finds a counter for a word that had none.
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
        // If two threads take over one counter, the slower one counts for the word of the faster one. One call is
        // counted for the wrong word, but no counter is lost.
        if self.words[way].compare_exchange(before, address, Relaxed, Relaxed).is_ok() {
            self.doubtful[way].store(fewest, Relaxed);
            // What was noted so far is of the word that had the counter before.
            let times = [&self.waits, &self.waited_ns, &self.longest_ns, &self.busy_ns];
            let numbers = [&self.sleeping, &self.sleeping_since, &self.sleeping_most, &self.woken, &self.requeued];
            times.iter().chain(&numbers).for_each(|of| of[way].store(0, Relaxed));
            if before != 0 {
                self.lengths[way].iter().for_each(|count| count.store(0, Relaxed));
            }
        }
        way
    }

    /// What 99 of 100 waits did not exceed.
    fn p99(&self, way: usize) -> u64 {
        let counts = || self.lengths[way].iter().map(|count| u64::from(count.load(Relaxed)));
        let least = (counts().sum::<u64>() * 99).div_ceil(100);
        let up_to = counts().scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        });
        up_to.take(LENGTHS - 1).position(|sum| sum >= least).map_or(u64::MAX, longest)
    }

    /// How many threads slept on average, while any did, those included that sleep at this time.
    fn waiters_mean(&self, way: usize, now: u64) -> f64 {
        let of = |numbers: &[AtomicU64; WAYS]| numbers[way].load(Relaxed);
        let sleeping = of(&self.sleeping);
        let busy_now = if sleeping == 0 { 0 } else { now.saturating_sub(of(&self.busy_since)) };
        // The subtraction wraps. No thread has slept for longer than there was a sleeper.
        let slept_now = sleeping.wrapping_mul(now).wrapping_sub(of(&self.sleeping_since)).cast_signed();
        let slept_now = (slept_now.max(0) as f64).min(sleeping as f64 * busy_now as f64);
        let busy_ns = (of(&self.busy_ns) + busy_now) as f64;
        if busy_ns == 0.0 { 0.0 } else { (of(&self.waited_ns) as f64 + slept_now) / busy_ns }
    }

    fn words(&self, now: u64) -> impl Iterator<Item = Word> {
        (0..WAYS).filter_map(move |way| {
            let address = self.words[way].load(Relaxed);
            let calls_at_most = self.calls[way].load(Relaxed);
            let calls_at_least = calls_at_most.saturating_sub(self.doubtful[way].load(Relaxed));
            let of = |numbers: &[AtomicU64; WAYS]| numbers[way].load(Relaxed);
            let (waits, waited_ns, longest_ns) = (of(&self.waits), of(&self.waited_ns), of(&self.longest_ns));
            let word = Word {
                address,
                calls_at_most,
                calls_at_least,
                waits,
                waited_ns,
                p99_ns: self.p99(way).min(longest_ns),
                longest_ns,
                waiters_most: of(&self.sleeping_most),
                waiters_mean: self.waiters_mean(way, now),
                wakes: of(&self.woken),
                requeues: of(&self.requeued),
            };
            (address != 0 && calls_at_most != 0).then_some(word)
        })
    }
}
