//! The oracle of wakes: compares the number of wakes that calls counted with the number that waits received.

use std::ffi::c_long;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A set of words, by the calls that are made on them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Zone {
    /// Only plain waits and wakes. Each counted wake is received by one wait.
    Exact,
    /// Also waits on several words, which may receive several wakes, and waiters that are freed without their result.
    /// At most as many wakes are received as are counted.
    Loose,
    /// Also locks. A plain wait at a lock's word makes calls fail after they have woken waiters, so nothing is counted.
    Any,
}

pub const ZONES: [Zone; 3] = [Zone::Exact, Zone::Loose, Zone::Any];

#[derive(Default)]
struct Sums {
    counted: AtomicU64,
    received: AtomicU64,
}

/// The sums of all threads.
#[derive(Default)]
pub struct Accounts {
    calls: AtomicU64,
    bad_handles: AtomicU64,
    sums: [Sums; 2],
}

impl Accounts {
    /// Number of calls so far.
    pub fn calls(&self) -> u64 {
        self.calls.load(Relaxed)
    }

    /// Adds the calls of a thread.
    pub fn add_calls(&self, calls: u64, with_bad_handles: u64) {
        self.calls.fetch_add(calls, Relaxed);
        self.bad_handles.fetch_add(with_bad_handles, Relaxed);
    }

    fn of(&self, zone: Zone) -> Option<&Sums> {
        self.sums.get(zone as usize)
    }

    /// Adds the result of a call that wakes. Errors count as 0.
    pub fn counted(&self, zone: Zone, answer: c_long) {
        if let (Some(sums), Ok(woken)) = (self.of(zone), u64::try_from(answer)) {
            sums.counted.fetch_add(woken, Relaxed);
        }
    }

    /// Adds the result of a wait. Errors received no wake.
    pub fn received(&self, zone: Zone, answer: c_long) {
        if let (Some(sums), true) = (self.of(zone), answer >= 0) {
            sums.received.fetch_add(1, Relaxed);
        }
    }

    /// Compares the sums when all calls have ended.
    pub fn balance(&self, seed: u64) {
        let [exact, loose] =
            self.sums.each_ref().map(|sums| [&sums.counted, &sums.received].map(|sum| sum.load(Relaxed)));
        assert_eq!(exact[0], exact[1], "seed {seed}: wakes that were counted, and received");
        assert!(exact[1] > 0, "seed {seed}: no waiter was woken");
        assert!(loose[0] >= loose[1], "seed {seed}: of {loose:?} wakes counted and received");
        assert!(loose[1] > 0, "seed {seed}: no waiter of several words was woken");
    }
}

impl fmt::Display for Accounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [[a, b], [c, d]] =
            self.sums.each_ref().map(|sums| [&sums.counted, &sums.received].map(|sum| sum.load(Relaxed)));
        let bad = self.bad_handles.load(Relaxed);
        write!(
            f,
            "{bad} with bad handles; {a} wakes counted, {b} received; of waits on several words and freed ones {c} and {d}"
        )
    }
}
