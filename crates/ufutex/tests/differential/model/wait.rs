//! Waits on one word.

use super::key::{Access, Key};
use super::{Answer, Deadline, Entry, Kind, Model, OnSignal, Stop, errno};

pub(super) struct Wait {
    pub address: u64,
    pub is_private: bool,
    pub value: u32,
    pub bitset: u32,
    pub deadline: Deadline,
    pub on_signal: OnSignal,
}

impl Model {
    pub(super) fn wait(&mut self, worker: usize, wait: Wait) -> Answer {
        if wait.bitset == 0 {
            return errno(libc::EINVAL);
        }
        let key = self.compare(&wait)?;
        self.sleep(worker, key, Kind::Plain, wait)
    }

    /// The key of the word, EAGAIN if the word does not hold the expected value.
    pub(super) fn compare(&self, wait: &Wait) -> Answer<Key> {
        let key = self.key(wait.address, wait.is_private, Access::Read)?;
        if self.load(wait.address)? == wait.value { Ok(key) } else { errno(libc::EAGAIN) }
    }

    /// Queues the worker. If its timeout has passed, it returns ETIMEDOUT without being queued.
    pub(super) fn sleep(&mut self, worker: usize, key: Key, kind: Kind, wait: Wait) -> Answer {
        if wait.deadline == Deadline::Passed {
            return errno(libc::ETIMEDOUT);
        }
        self.enqueue(Entry { worker, index: 0, key, bitset: wait.bitset, kind });
        Err(Stop::Sleeps(wait.on_signal))
    }
}
