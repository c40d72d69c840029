//! A guest thread in a wait.

use std::sync::Arc;

use ufutex::wasm::{Trap, Waited};

use crate::common::asleep::{Call, futex_call, until};
use crate::common::sleeping::Sleeping;
use crate::suite::{FOREVER, Machine, Width};

/// A thread that waits.
pub struct Waiting(Sleeping<Result<Waited, Trap>>);

impl Waiting {
    /// Runs `wait` in a new thread. Returns when the thread sleeps or has ended.
    pub fn new(wait: impl FnOnce() -> Result<Waited, Trap> + Send + 'static) -> Self {
        let waiting = Self(Sleeping::start(wait));
        until("the thread waits", || waiting.is_asleep() || waiting.has_ended());
        waiting
    }

    /// A wait with expected value 0 and without a timeout.
    pub fn on<M: Machine, W: Width>(machine: &Arc<M>, address: u64) -> Self {
        let machine = machine.clone();
        Self::new(move || W::wait(&*machine, address, 0, FOREVER))
    }

    /// Whether the thread sleeps in a wait of the machine, and not for an internal lock of the machine.
    pub fn is_asleep(&self) -> bool {
        // Locks of the standard library sleep with the expected value 2, the engine's buckets with 1.
        // A group's word counts wakes, so it may hold either.
        let is_wait = |call: Call| call.bits != u32::MAX || !matches!(call.expected as u32, 1 | 2);
        futex_call(self.0.tid()).is_some_and(is_wait)
    }

    /// Whether the wait has ended.
    pub fn has_ended(&self) -> bool {
        self.0.has_ended()
    }

    /// The result of the wait.
    pub fn outcome(self) -> Result<Waited, Trap> {
        self.0.outcome()
    }
}

/// Waits until `count` of `waiting` have been woken, removes them and returns their numbers. The others must sleep.
pub fn woken(waiting: &mut Vec<(usize, Waiting)>, count: usize) -> Vec<usize> {
    let mut woken = Vec::new();
    until("those that were notified run", || {
        for (number, one) in waiting.extract_if(.., |(_, one)| one.has_ended()) {
            assert_eq!(one.outcome(), Ok(Waited::Ok));
            woken.push(number);
        }
        woken.len() >= count
    });
    woken.sort_unstable();
    woken
}
