//! Moving waiters from one word to another, so many at a time: the measured part of `requeue`.

use super::Futex;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

/// Who is to be moved, where, and how.
#[derive(Clone, Copy)]
pub struct Move<'a> {
    /// Where they wait; it holds 0.
    pub from: &'a AtomicU32,
    /// Where they are to wait.
    pub to: &'a AtomicU32,
    /// How many there are.
    pub waiters: usize,
    /// How many of them a call moves.
    pub at_once: usize,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moved {
    /// Waiters that wait at the other word now.
    pub waiters: usize,
    /// What all calls took.
    pub elapsed: Duration,
    /// Whether each call moved as many as it was to: otherwise some had not been asleep yet, and nothing was measured.
    pub is_exact: bool,
}

/// Moves all of them; gives up at a call that finds nobody.
pub fn requeue<F: Futex>(futex: &F, it: Move<'_>) -> Moved {
    repeat(it, |at_once| futex.cmp_requeue(it.from, it.to, at_once))
}

/// The same for waiters that are to own the lock `to`. The caller owns it, or nobody does.
pub fn requeue_pi<F: Futex>(futex: &F, it: Move<'_>) -> Moved {
    repeat(it, |at_once| futex.cmp_requeue_pi(it.from, it.to, at_once))
}

// Apart for each target, as the other loops are.
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
