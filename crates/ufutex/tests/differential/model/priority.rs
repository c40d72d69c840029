//! Who gets a PI futex next, and what its owner inherits: the kernel's rt-mutex.
//!
//! A waiter lends its priority to the owner. If that waits for a PI futex itself, it gets another place there, behind
//! those of its new priority, and lends it on.

use super::key::Key;
use super::{Model, PiState, PiWaiter};

/// The worker would wait for itself.
pub(super) struct Deadlock;

impl Model {
    /// Lets the worker wait to own the futex.
    pub(super) fn block(&mut self, worker: usize, key: Key) -> Result<(), Deadlock> {
        if self.state(key).owner == worker {
            return Err(Deadlock);
        }
        let priority = self.effective_priority(worker);
        insert(self.state(key), PiWaiter { worker, priority });
        let mut owner = self.state(key).owner;
        while let Some(next) = self.blocked_on(owner) {
            let state = &self.pi_states[next];
            if state.key == key || state.owner == worker {
                // What has been lent on the way here is taken back.
                self.unblock(worker);
                return Err(Deadlock);
            }
            let next_owner = state.owner;
            self.adjust(owner, next);
            owner = next_owner;
        }
        Ok(())
    }

    /// Lets the worker wait no more, if it does.
    pub(super) fn unblock(&mut self, worker: usize) {
        let Some(at) = self.blocked_on(worker) else { return };
        let state = &mut self.pi_states[at];
        state.waiters.retain(|waiter| waiter.worker != worker);
        let mut owner = state.owner;
        while let Some(next) = self.blocked_on(owner) {
            self.adjust(owner, next);
            owner = self.pi_states[next].owner;
        }
    }

    /// The state of the futex that a worker waits to own.
    fn blocked_on(&self, worker: usize) -> Option<usize> {
        self.pi_states.iter().position(|state| state.waiters.iter().any(|waiter| waiter.worker == worker))
    }

    /// Gives a waiter another place if its priority has changed.
    fn adjust(&mut self, worker: usize, state: usize) {
        let priority = self.effective_priority(worker);
        let state = &mut self.pi_states[state];
        let at = state.waiters.iter().position(|waiter| waiter.worker == worker).expect("it waits there");
        if state.waiters[at].priority != priority {
            state.waiters.remove(at);
            insert(state, PiWaiter { worker, priority });
        }
    }

    /// A worker's priority with what is lent to it.
    fn effective_priority(&self, worker: usize) -> u8 {
        let owned = self.pi_states.iter().filter(|state| state.owner == worker);
        let lent = owned.filter_map(|state| state.waiters.first()).map(|waiter| waiter.priority);
        lent.chain([self.priorities[worker]]).max().expect("its own is there")
    }
}

/// Behind all of its priority and above.
fn insert(state: &mut PiState, waiter: PiWaiter) {
    let at = state.waiters.iter().position(|other| other.priority < waiter.priority);
    state.waiters.insert(at.unwrap_or(state.waiters.len()), waiter);
}
