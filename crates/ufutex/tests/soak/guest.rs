//! A domain that exists during the whole run, with its words, its locks and its counts.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use ufutex::{Domain, DomainOptions, System};

use crate::common::waiters::nonzero;

pub const WORDS: usize = 6;
pub const LOCKS: usize = 2;

/// A PI lock, and the TID of the task that holds it.
#[derive(Default)]
pub struct Lock {
    pub word: AtomicU32,
    inside: AtomicU32,
}

pub struct Guest {
    pub domain: Domain,
    /// Words that always hold 0. Some share a cache line and therefore a bucket.
    pub words: [AtomicU32; WORDS],
    pub locks: [Lock; LOCKS],
    /// Sum of the results of all wakes.
    counted: AtomicU64,
    received: AtomicU64,
    /// Number of times that a lock was taken.
    taken: AtomicU64,
}

impl Guest {
    pub fn new(system: &System) -> Self {
        Self {
            domain: Domain::with_options(system, DomainOptions::new()),
            words: Default::default(),
            locks: Default::default(),
            counted: AtomicU64::new(0),
            received: AtomicU64::new(0),
            taken: AtomicU64::new(0),
        }
    }

    pub fn wake(&self, word: usize, count: usize, bitset: u32) {
        let woken = self.domain.wake_bitset(&self.words[word], count, nonzero(bitset));
        assert!(woken <= count);
        self.count(woken);
    }

    pub fn count(&self, woken: usize) {
        self.counted.fetch_add(woken as u64, Relaxed);
    }

    pub fn receive(&self) {
        self.received.fetch_add(1, Relaxed);
    }

    pub fn wake_all(&self) {
        (0..WORDS).for_each(|word| self.wake(word, usize::MAX, u32::MAX));
    }

    /// Checks that no other task is inside. Called with the lock held.
    pub fn be_inside(&self, lock: usize, tid: u32) {
        let Lock { word, inside } = &self.locks[lock];
        assert_eq!(inside.swap(tid, SeqCst), 0, "{tid} is not alone");
        assert_eq!(word.load(SeqCst) & ufutex::pi::TID_MASK, tid);
        if self.taken.fetch_add(1, Relaxed).is_multiple_of(3) {
            std::thread::yield_now();
        }
        assert_eq!(inside.swap(0, SeqCst), tid, "another task came in");
    }

    /// Wakes counted, wakes received, locks taken.
    pub fn sums(&self) -> [u64; 3] {
        [&self.counted, &self.received, &self.taken].map(|sum| sum.load(Relaxed))
    }

    /// Checks, after all workers have ended, that the sums agree.
    pub fn balance(&self) {
        let [counted, received, taken] = self.sums();
        assert_eq!(counted, received, "wakes counted and received in a domain");
        assert!(counted > 0 && taken > 0, "no waiter was woken, or no lock was taken");
        assert_eq!(self.domain.waiting(), 0);
    }
}
