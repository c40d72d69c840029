//! The newest waits one by one, for the page's time line. The account has only sums.

use crate::word::{End, Place};
use std::collections::VecDeque;

/// Most waits that are kept.
pub const MOST: usize = 20_000;

/// A wait that has ended.
#[derive(Clone, Copy)]
pub struct Past {
    /// The thread.
    pub tid: u32,
    /// Address of the word.
    pub word: u64,
    /// From where.
    pub place: Place,
    /// When it began.
    pub since_ns: u64,
    /// When it ended. Not before `since_ns`.
    pub until_ns: u64,
    /// How it ended.
    pub end: End,
}

/// The newest waits of all processes, at most [`MOST`].
#[derive(Default)]
pub struct Newest {
    /// With the numbers of their processes.
    pub waits: VecDeque<(usize, Past)>,
    /// Number of older waits, which were dropped.
    pub dropped: u64,
}

impl Newest {
    /// Adds waits that have ended since the last call. If there are too many then, those that ended first are dropped.
    pub fn add(&mut self, mut past: Vec<(usize, Past)>) {
        past.sort_by_key(|(_, past)| past.until_ns);
        self.waits.extend(past);
        let surplus = self.waits.len().saturating_sub(MOST);
        self.waits.drain(..surplus);
        self.dropped += surplus as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::StackId;

    #[test]
    fn oldest_waits_are_dropped_and_counted() {
        let past = |until_ns| {
            let place = (StackId(0), 128);
            (1, Past { tid: 1, word: 8, place, since_ns: 0, until_ns, end: End::TimedOut })
        };
        let mut newest = Newest::default();
        newest.add(vec![past(3), past(1)]);
        assert_eq!((newest.waits.len(), newest.dropped), (2, 0));
        newest.add((4..MOST as u64 + 3).map(past).collect());
        assert_eq!((newest.waits.len(), newest.dropped), (MOST, 1));
        assert_eq!(newest.waits[0].1.until_ns, 3, "the one that ended at 1 is gone");
    }
}
