//! What histories of concurrent calls need besides: see `crates/models/linear`.

#![allow(dead_code, reason = "the differential tests, whose calls come one after another, use nothing of it")]

use super::key::Key;
use super::{Entry, Model, PiState};
use crate::layout::WORDS;
use crate::program::WORKERS;

/// All that later calls depend on.
#[derive(PartialEq, Eq, Hash)]
pub struct State {
    queue: Vec<Entry>,
    pi_states: Vec<PiState>,
    words: [u32; WORDS.len()],
    blocked: [bool; WORKERS],
    is_dead: [bool; WORKERS],
}

impl Model {
    pub fn all_state(&self) -> State {
        State {
            queue: self.queue.clone(),
            pi_states: self.pi_states.clone(),
            words: std::array::from_fn(|word| self.value(word)),
            blocked: self.blocked.each_ref().map(Option::is_some),
            is_dead: self.is_dead,
        }
    }

    /// What the calls that returned in the last step returned.
    pub fn returned(&self) -> [Option<i64>; WORKERS] {
        self.returned
    }

    /// The futex for which a worker is queued.
    pub fn waits_for(&self, worker: usize) -> Option<Key> {
        self.queue.iter().find(|entry| entry.worker == worker).map(|entry| entry.key)
    }

    /// Ends the call in which a worker is blocked, with this result: its timeout has passed, or the wait is cancelled.
    pub fn give_up(&mut self, worker: usize, result: i64) {
        self.returned = [None; WORKERS];
        self.leave(worker);
        self.end(worker, result);
    }

    /// Wakes the first of these waiters of `key`.
    pub fn wake_one_of(&mut self, key: Key, mask: u32, waiters: [bool; WORKERS]) {
        self.returned = [None; WORKERS];
        let first = self.waiters(key).into_iter().find(|&at| {
            let entry = &self.queue[at];
            entry.bitset & mask != 0 && waiters[entry.worker]
        });
        if let Some(at) = first {
            self.wake_one(at);
            self.end_woken();
        }
    }
}
