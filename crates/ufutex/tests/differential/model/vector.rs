//! `futex_waitv`.

use super::decode::check_value;
use super::key::Access;
use super::{Answer, Deadline, Entry, Kind, Model, OnSignal, Stop, errno};
use crate::program::PRIVATE;

/// A `struct futex_waitv` whose flags and value have been checked.
pub(super) struct Waiter {
    pub address: u64,
    pub is_private: bool,
    pub value: u32,
}

impl Model {
    /// Reads `count` waiters. The first invalid one is an error.
    pub(super) fn vector(&self, address: u64, count: u32) -> Answer<Vec<Waiter>> {
        const BYTES: u64 = 24;
        (0..u64::from(count))
            .map(|i| {
                let at = address.wrapping_add(i * BYTES);
                let Ok(bytes) = self.memory.read::<{ BYTES as usize }>(at) else { return errno(libc::EFAULT) };
                let word = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
                let (flags, reserved) = (word(16) as u32, word(16) >> 32);
                self.check_flags2(flags)?;
                if reserved != 0 {
                    return errno(libc::EINVAL);
                }
                Ok(Waiter { value: check_value(word(0))?, address: word(8), is_private: flags & PRIVATE != 0 })
            })
            .collect()
    }

    pub(super) fn wait_for_any(&mut self, worker: usize, waiters: &[Waiter], deadline: Deadline) -> Answer {
        // The kernel computes all keys first, then compares the words one after the other.
        let keys: Answer<Vec<_>> = waiters.iter().map(|w| self.key(w.address, w.is_private, Access::Read)).collect();
        let keys = keys?;
        for waiter in waiters {
            if self.load(waiter.address)? != waiter.value {
                return errno(libc::EAGAIN);
            }
        }
        if deadline == Deadline::Passed {
            return errno(libc::ETIMEDOUT);
        }
        for (index, key) in keys.into_iter().enumerate() {
            self.enqueue(Entry { worker, index, key, bitset: u32::MAX, kind: Kind::Plain });
        }
        Err(Stop::Sleeps(OnSignal::RestartsIfAsked))
    }
}
