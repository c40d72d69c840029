//! Requeuing waiters from one word to another, `at_once` at a time: the measured part of `requeue`.

use super::Futex;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

/// The waiters to be moved, and their target.
#[derive(Clone, Copy)]
pub struct Move<'a> {
    /// The word at which they wait. It holds 0.
    pub from: &'a AtomicU32,
    /// The word to which they are moved.
    pub to: &'a AtomicU32,
    /// Number of waiters.
    pub waiters: usize,
    /// Number of waiters that one call moves.
    pub at_once: usize,
}

/// The result of a [`Move`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Moved {
    /// Waiters that were moved.
    pub waiters: usize,
    /// Time of all calls.
    pub elapsed: Duration,
    /// Whether each call moved as many waiters as it should. If not, some were not asleep, and the time is not valid.
    pub is_exact: bool,
}

/// Moves all waiters. Gives up when a call moves none.
pub fn requeue<F: Futex>(futex: &F, it: Move<'_>) -> Moved {
    repeat(it, |at_once| futex.cmp_requeue(it.from, it.to, at_once))
}

/// Moves waiters that are to own the lock `to`, which the caller owns.
pub fn requeue_pi<F: Futex>(futex: &F, it: Move<'_>) -> Moved {
    repeat(it, |at_once| futex.cmp_requeue_pi(it.from, it.to, at_once))
}

// Not inlined, for each target, like the other loops.
#[inline(never)]
fn repeat(it: Move<'_>, call: impl Fn(usize) -> usize) -> Moved {
    let (mut waiters, mut calls) = (0, 0);
    let start = Instant::now();
    while waiters < it.waiters {
        let moved = call(it.at_once.min(it.waiters - waiters));
        waiters += moved;
        calls += 1;
        if moved == 0 {
            break;
        }
    }
    let elapsed = start.elapsed();
    let is_exact = waiters == it.waiters && calls == it.waiters.div_ceil(it.at_once);
    Moved { waiters, elapsed, is_exact }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_moves_too_few_spoils_the_sample() {
        let words = [AtomicU32::new(0), AtomicU32::new(0)];
        let it = Move { from: &words[0], to: &words[1], waiters: 10, at_once: 4 };
        let exact = repeat(it, |at_once| at_once);
        assert_eq!((exact.waiters, exact.is_exact), (10, true));
        let few = repeat(it, |at_once| at_once.min(3));
        assert_eq!((few.waiters, few.is_exact), (10, false));
        let none = repeat(it, |_| 0);
        assert_eq!((none.waiters, none.is_exact), (0, false));
    }
}
