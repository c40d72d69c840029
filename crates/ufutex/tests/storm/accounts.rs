//! The oracle: what wakes have answered, and what waits have received.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Which words a call was about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Zone {
    /// Plain waits and wakes alone: each wake that is counted is received by one wait.
    Exact,
    /// Also waits on several words, which may receive several wakes, and waits that are dropped: no more are received than
    /// are counted.
    Loose,
    /// Anything: locks and plain waits at one word. Errors hide wakes there, and nothing is counted.
    Any,
}

/// The sums of all threads.
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
    /// How many calls have been made.
    pub fn calls(&self) -> u64 {
        self.calls.load(Relaxed)
    }

    /// A call has been made.
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

    /// What a call that wakes has answered; errors wake nobody.
    pub fn answered(&self, zone: Zone, result: isize) {
        if let (Some(sums), Ok(woken)) = (self.of(zone), u64::try_from(result)) {
            sums.answered.fetch_add(woken, Relaxed);
        }
    }

    /// What a wait has answered; errors have received nothing.
    pub fn received(&self, zone: Zone, result: isize) {
        if let (Some(sums), true) = (self.of(zone), result >= 0) {
            sums.received.fetch_add(1, Relaxed);
        }
    }

    /// When all have ended.
    pub fn balance(&self, seed: u64) {
        let sums = |sums: &Sums| (sums.answered.load(Relaxed), sums.received.load(Relaxed));
        let (answered, received) = sums(&self.exact);
        assert_eq!(answered, received, "seed {seed}: wakes that were counted, and received");
        assert!(received > 0, "seed {seed}: nobody was woken");
        let (answered, received) = sums(&self.loose);
        assert!(answered >= received, "seed {seed}: {answered} wakes were counted, {received} received");
        assert!(received > 0, "seed {seed}: nobody was woken by several words");
    }
}

impl fmt::Display for Accounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sums = |sums: &Sums| [sums.answered.load(Relaxed), sums.received.load(Relaxed)];
        let ([a, b], [c, d]) = (sums(&self.exact), sums(&self.loose));
        write!(f, "{a} wakes counted, {b} received; of waits on several words and dropped ones {c} and {d}")
    }
}
