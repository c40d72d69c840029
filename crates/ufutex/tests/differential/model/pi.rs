//! PI futexes. The word holds the owner's TID, and `WAITERS` if unlocking needs a system call.
//!
//! The kernel's state of such a futex, `PiState`, exists only while there are waiters.

use super::key::{Access, Key};
use super::{Answer, Deadline, Entry, Kind, Model, OnSignal, PiState, Stop, errno};
use crate::program::{OWNER_DIED, TID_MASK, WAITERS, WORKERS};

/// The result of an attempt to lock without blocking.
pub(super) enum Attempt {
    Locked,
    /// Another thread owns the lock. The `PiState` to wait with exists.
    Contended,
}

impl Model {
    pub(super) fn lock_pi(&mut self, worker: usize, address: u64, is_private: bool, deadline: Deadline) -> Answer {
        let key = self.key(address, is_private, Access::Write)?;
        match self.lock_atomically(worker, address, key, false)? {
            Attempt::Locked => Ok(0),
            Attempt::Contended => {
                let result = self.block_on(worker, key, deadline);
                self.drop_unused_states();
                result
            }
        }
    }

    fn block_on(&mut self, worker: usize, key: Key, deadline: Deadline) -> Answer {
        if self.block(worker, key).is_err() {
            // The caller owns the lock although the program has written another owner, or none, into the word. The
            // kernel notices this at the end of the call and returns success.
            return if self.state(key).owner == worker { Ok(0) } else { errno(libc::EDEADLK) };
        }
        if deadline == Deadline::Passed {
            self.unblock(worker);
            return errno(libc::ETIMEDOUT);
        }
        self.enqueue(Entry { worker, index: 0, key, bitset: u32::MAX, kind: Kind::Pi { requeued: false } });
        Err(Stop::Sleeps(OnSignal::Restarts))
    }

    pub(super) fn trylock_pi(&mut self, worker: usize, address: u64, is_private: bool) -> Answer {
        let key = self.key(address, is_private, Access::Write)?;
        match self.lock_atomically(worker, address, key, false)? {
            Attempt::Locked => Ok(0),
            Attempt::Contended => {
                let owner = self.state(key).owner;
                self.drop_unused_states();
                if owner == worker {
                    // The caller is the owner, but the program has set `OWNER_DIED`. The kernel corrects the word.
                    let word = self.load(address)?;
                    self.store(address, word & OWNER_DIED | WAITERS | self.tids[worker])?;
                }
                errno(libc::EAGAIN)
            }
        }
    }

    pub(super) fn unlock_pi(&mut self, worker: usize, address: u64, is_private: bool) -> Answer {
        // The kernel reads the word before it checks the address, so the word may be misaligned here.
        let word = self.load(address)?;
        if word & TID_MASK != self.tids[worker] {
            return errno(libc::EPERM);
        }
        let key = self.key(address, is_private, Access::Write)?;
        let Some(top) = self.top_waiter(key) else {
            self.store(address, 0)?;
            return Ok(0);
        };
        if !matches!(self.queue[top].kind, Kind::Pi { .. }) || self.state(key).owner != worker {
            return errno(libc::EINVAL);
        }
        let next = self.state(key).waiters[0].worker;
        self.store(address, WAITERS | self.tids[next])?;
        let state = self.state(key);
        state.owner = next;
        state.waiters.remove(0);
        self.queue.retain(|entry| entry.worker != next);
        self.drop_unused_states();
        self.end(next, 0);
        Ok(0)
    }

    /// Locks for `worker` if that is possible without blocking. Otherwise makes sure that there is a `PiState` to wait
    /// with.
    pub(super) fn lock_atomically(
        &mut self,
        worker: usize,
        address: u64,
        key: Key,
        set_waiters: bool,
    ) -> Answer<Attempt> {
        let word = self.load(address)?;
        if word & TID_MASK == self.tids[worker] {
            return errno(libc::EDEADLK);
        }
        if let Some(top) = self.top_waiter(key) {
            return self.attach_to_state(word, top);
        }
        if word & TID_MASK == 0 {
            let waiters = if set_waiters { WAITERS } else { 0 };
            self.store(address, word & OWNER_DIED | self.tids[worker] | waiters)?;
            if set_waiters {
                self.pi_states.push(PiState { key, owner: worker, waiters: Vec::new() });
            }
            return Ok(Attempt::Locked);
        }
        // The first waiter sets `WAITERS`. The bit stays set even if the owner then turns out not to exist.
        self.store(address, word | WAITERS)?;
        self.attach_to_owner(word & TID_MASK, key)
    }

    /// Attaches to the `PiState` of earlier waiters. Its owner must match the word.
    fn attach_to_state(&mut self, word: u32, top: usize) -> Answer<Attempt> {
        let Kind::Pi { .. } = self.queue[top].kind else { return errno(libc::EINVAL) };
        let key = self.queue[top].key;
        let owner = self.state(key).owner;
        let tid = word & TID_MASK;
        // The word is in this state for a moment after its owner has died.
        let is_owner_dead = word & OWNER_DIED != 0 && tid == 0;
        if is_owner_dead || tid == self.tids[owner] { Ok(Attempt::Contended) } else { errno(libc::EINVAL) }
    }

    fn attach_to_owner(&mut self, tid: u32, key: Key) -> Answer<Attempt> {
        // Linux TIDs are below this value.
        const TIDS_END: u32 = 1 << 22;
        match (0..WORKERS).find(|&worker| self.tids[worker] == tid) {
            Some(owner) if self.is_dead[owner] => errno(libc::ESRCH),
            Some(owner) => {
                self.pi_states.push(PiState { key, owner, waiters: Vec::new() });
                Ok(Attempt::Contended)
            }
            None => {
                // The TID may belong to any thread of the host, even to a kernel thread.
                if tid < TIDS_END {
                    self.is_defined.set(false);
                }
                errno(libc::ESRCH)
            }
        }
    }

    pub(super) fn state(&mut self, key: Key) -> &mut PiState {
        self.pi_states.iter_mut().find(|state| state.key == key).expect("a waiter for a PI futex has a state")
    }

    pub(super) fn drop_unused_states(&mut self) {
        self.pi_states.retain(|state| !state.waiters.is_empty());
    }
}
