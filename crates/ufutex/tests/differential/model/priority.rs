//! Priority inheritance: the order of a PI futex's waiters and its owner's priority, as in the kernel's rt-mutex.
//!
//! The owner inherits the priority of its highest waiter. If the owner itself waits for another PI futex, it moves in
//! that queue to behind the waiters of its new priority, and the owner of that futex inherits the priority in turn.

use super::key::Key;
use super::{Model, PiState, PiWaiter};

/// Blocking would close a cycle of owners that wait for each other.
pub(super) struct Deadlock;

impl Model {
    /// Makes the worker a waiter for the PI futex.
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
                // Undoes the priority changes along the chain up to here.
                self.unblock(worker);
                return Err(Deadlock);
            }
            let next_owner = state.owner;
            self.adjust(owner, next);
            owner = next_owner;
        }
        Ok(())
    }

    /// Removes the worker from the PI futex for which it waits, if any.
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

    /// The index of the `PiState` for which a worker waits.
    fn blocked_on(&self, worker: usize) -> Option<usize> {
        self.pi_states.iter().position(|state| state.waiters.iter().any(|waiter| waiter.worker == worker))
    }

    /// Moves a waiter in its queue if its priority has changed.
    fn adjust(&mut self, worker: usize, state: usize) {
        let priority = self.effective_priority(worker);
        let state = &mut self.pi_states[state];
        let at = state.waiters.iter().position(|waiter| waiter.worker == worker).expect("it waits there");
        if state.waiters[at].priority != priority {
            state.waiters.remove(at);
            insert(state, PiWaiter { worker, priority });
        }
    }

    /// A worker's effective priority, including what it inherits.
    fn effective_priority(&self, worker: usize) -> u8 {
        let owned = self.pi_states.iter().filter(|state| state.owner == worker);
        let lent = owned.filter_map(|state| state.waiters.first()).map(|waiter| waiter.priority);
        lent.chain([self.priorities[worker]]).max().expect("its own is there")
    }
}

/// Inserts a waiter behind all waiters of its priority and above.
fn insert(state: &mut PiState, waiter: PiWaiter) {
    let at = state.waiters.iter().position(|other| other.priority < waiter.priority);
    state.waiters.insert(at.unwrap_or(state.waiters.len()), waiter);
}
