//! What a guest's C library does with futex(2): a mutex, and sleeps with a timeout.

use core::time::Duration;

use super::{EAGAIN, LOCK_PI, Thread, UNLOCK_PI, WAIT, WAKE};

const UNLOCKED: u32 = 0;
const LOCKED: u32 = 1;
/// Locked, and others may wait.
const CONTENDED: u32 = 2;

impl Thread {
    pub fn wait(&self, address: u64, value: u32) -> isize {
        self.futex(address, WAIT, value, 0, 0, 0)
    }

    pub fn wake(&self, address: u64, count: u32) -> isize {
        self.futex(address, WAKE, count, 0, 0, 0)
    }

    /// Adds 1. Not atomic: it is for words that a lock protects.
    pub fn count(&self, address: u64) {
        self.store(address, self.load(address) + 1);
    }

    pub fn lock(&self, mutex: u64) {
        if self.compare_exchange(mutex, UNLOCKED, LOCKED).is_err() {
            self.lock_contended(mutex);
        }
    }

    /// Locks a mutex for which others may wait too.
    pub fn lock_contended(&self, mutex: u64) {
        while self.swap(mutex, CONTENDED) != UNLOCKED {
            let result = self.wait(mutex, CONTENDED);
            assert!(result == 0 || result == EAGAIN, "FUTEX_WAIT: {result}");
        }
    }

    pub fn unlock(&self, mutex: u64) {
        if self.swap(mutex, UNLOCKED) == CONTENDED {
            self.wake(mutex, 1);
        }
    }

    /// Locks a mutex with priority inheritance.
    pub fn lock_pi(&self, mutex: u64) {
        let tid = self.task.tid();
        if self.compare_exchange(mutex, 0, tid).is_err() {
            assert_eq!(self.futex(mutex, LOCK_PI, 0, 0, 0, 0), 0, "FUTEX_LOCK_PI");
        }
        assert_eq!(self.load(mutex) & ufutex::pi::TID_MASK, tid, "the lock's word names its owner");
    }

    pub fn unlock_pi(&self, mutex: u64) {
        let tid = self.task.tid();
        if self.compare_exchange(mutex, tid, 0).is_err() {
            assert_eq!(self.futex(mutex, UNLOCK_PI, 0, 0, 0, 0), 0, "FUTEX_UNLOCK_PI");
        }
    }

    /// Writes a timespec.
    pub fn write_time(&self, address: u64, time: Duration) {
        self.write(address, &time.as_secs().to_le_bytes());
        self.write(address + 8, &u64::from(time.subsec_nanos()).to_le_bytes());
    }
}
