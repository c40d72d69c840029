//! The oracle: compares the results of wakes with the number of waits that were woken.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The kind of words that a call used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Zone {
    /// Plain waits and wakes only. Each counted wake is received by exactly one wait.
    Exact,
    /// Also waits on several words, which may receive several wakes, and futures that are dropped. The number of
    /// received wakes is at most the number of counted ones.
    Loose,
    /// Any operations, PI and plain ones on one word. Errors hide wakes here, so nothing is counted.
    Any,
}

/// The sums over all threads.
#[derive(Default)]
pub struct Accounts {
    calls: AtomicU64,
    exact: Sums,
    loose: Sums,
}

#[derive(Default)]
struct Sums {
    answered: AtomicU64,
    received: AtomicU64,
}

impl Accounts {
    /// Number of calls made.
    pub fn calls(&self) -> u64 {
        self.calls.load(Relaxed)
    }

    /// Counts a call.
    pub fn count(&self) {
        self.calls.fetch_add(1, Relaxed);
    }

    fn of(&self, zone: Zone) -> Option<&Sums> {
        match zone {
            Zone::Exact => Some(&self.exact),
            Zone::Loose => Some(&self.loose),
            Zone::Any => None,
        }
    }

    /// Adds the result of a wake. A call that fails wakes no waiter.
    pub fn answered(&self, zone: Zone, result: isize) {
        if let (Some(sums), Ok(woken)) = (self.of(zone), u64::try_from(result)) {
            sums.answered.fetch_add(woken, Relaxed);
        }
    }

    /// Adds the result of a wait. A wait that fails has not received a wake.
    pub fn received(&self, zone: Zone, result: isize) {
        if let (Some(sums), true) = (self.of(zone), result >= 0) {
            sums.received.fetch_add(1, Relaxed);
        }
    }

    /// Checks the sums after all threads have ended.
    pub fn balance(&self, seed: u64) {
        let sums = |sums: &Sums| (sums.answered.load(Relaxed), sums.received.load(Relaxed));
        let (answered, received) = sums(&self.exact);
        assert_eq!(answered, received, "seed {seed}: wakes that were counted, and received");
        assert!(received > 0, "seed {seed}: no waiter was woken");
        let (answered, received) = sums(&self.loose);
        assert!(answered >= received, "seed {seed}: {answered} wakes were counted, {received} received");
        assert!(received > 0, "seed {seed}: no wait on several words was woken");
    }
}

impl fmt::Display for Accounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sums = |sums: &Sums| [sums.answered.load(Relaxed), sums.received.load(Relaxed)];
        let ([a, b], [c, d]) = (sums(&self.exact), sums(&self.loose));
        write!(f, "{a} wakes counted, {b} received; of waits on several words and dropped ones {c} and {d}")
    }
}
