//! The system calls by name, as methods of the machine. They have the private flag if the machine's words are private.

use std::time::Duration;

use crate::call::{Call, Number};
use crate::common::libc;
use crate::machine::{Machine, Pending, Thread};
use crate::memory::Word;

pub use crate::common::libc::{FUTEX_OWNER_DIED as OWNER_DIED, FUTEX_TID_MASK as TID_MASK, FUTEX_WAITERS as WAITERS};

pub const FUTEX_LOCK_PI2: i32 = 13;

/// Flags of futex2.
pub const SIZE_U8: u32 = 0;
pub const SIZE_U16: u32 = 1;
pub const SIZE_U32: u32 = 2;
pub const SIZE_U64: u32 = 3;
pub const NUMA: u32 = 4;
pub const MPOL: u32 = 8;
pub const PRIVATE: u32 = 128;

/// `FUTEX_BITSET_MATCH_ANY`
pub const ANY: u32 = u32::MAX;

/// A count that includes all waiters.
pub const ALL: i32 = i32::MAX;

/// An entry of futex_waitv(2) and futex_requeue(2).
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub value: u64,
    pub address: u64,
    pub flags: u32,
    pub reserved: u32,
}

impl Machine {
    /// futex(2) with the private flag if the machine's words are private.
    pub fn futex(&self, address: impl Into<u64>, op: i32, value: u32) -> Call {
        let call = Call::futex(address, op, value);
        if self.is_private() { call.private() } else { call }
    }

    pub fn wait(&self, word: impl Into<u64>, expected: u32) -> Call {
        self.futex(word, libc::FUTEX_WAIT, expected)
    }

    pub fn wait_bitset(&self, word: impl Into<u64>, expected: u32, bitset: u32) -> Call {
        self.futex(word, libc::FUTEX_WAIT_BITSET, expected).value3(bitset)
    }

    pub fn wake(&self, word: impl Into<u64>, count: i32) -> Call {
        self.futex(word, libc::FUTEX_WAKE, count as u32)
    }

    pub fn wake_bitset(&self, word: impl Into<u64>, count: i32, bitset: u32) -> Call {
        self.futex(word, libc::FUTEX_WAKE_BITSET, count as u32).value3(bitset)
    }

    pub fn requeue(&self, from: impl Into<u64>, to: impl Into<u64>, wake: i32, requeue: i32) -> Call {
        self.futex(from, libc::FUTEX_REQUEUE, wake as u32).address2(to).value2(requeue)
    }

    pub fn cmp_requeue(
        &self,
        from: impl Into<u64>,
        expected: u32,
        to: impl Into<u64>,
        wake: i32,
        requeue: i32,
    ) -> Call {
        self.futex(from, libc::FUTEX_CMP_REQUEUE, wake as u32).address2(to).value2(requeue).value3(expected)
    }

    pub fn wake_op(&self, at: impl Into<u64>, modify: impl Into<u64>, counts: [i32; 2], op: u32) -> Call {
        self.futex(at, libc::FUTEX_WAKE_OP, counts[0] as u32).address2(modify).value2(counts[1]).value3(op)
    }

    pub fn lock_pi(&self, word: impl Into<u64>) -> Call {
        self.futex(word, libc::FUTEX_LOCK_PI, 0)
    }

    pub fn lock_pi2(&self, word: impl Into<u64>) -> Call {
        self.futex(word, FUTEX_LOCK_PI2, 0)
    }

    pub fn trylock_pi(&self, word: impl Into<u64>) -> Call {
        self.futex(word, libc::FUTEX_TRYLOCK_PI, 0)
    }

    pub fn unlock_pi(&self, word: impl Into<u64>) -> Call {
        self.futex(word, libc::FUTEX_UNLOCK_PI, 0)
    }

    pub fn wait_requeue_pi(&self, from: impl Into<u64>, expected: u32, to: impl Into<u64>) -> Call {
        self.futex(from, libc::FUTEX_WAIT_REQUEUE_PI, expected).address2(to)
    }

    pub fn cmp_requeue_pi(&self, from: impl Into<u64>, expected: u32, to: impl Into<u64>, requeue: i32) -> Call {
        self.futex(from, libc::FUTEX_CMP_REQUEUE_PI, 1).address2(to).value2(requeue).value3(expected)
    }

    /// The futex2 flags of a 32-bit word.
    pub fn flags(&self) -> u32 {
        if self.is_private() { SIZE_U32 | PRIVATE } else { SIZE_U32 }
    }

    pub fn entry(&self, word: impl Into<u64>, expected: u32) -> Entry {
        Entry { value: expected.into(), address: word.into(), flags: self.flags(), reserved: 0 }
    }

    /// Writes the entries to memory and returns their address.
    pub fn entries(&self, entries: &[Entry]) -> u64 {
        let at = self.bytes(24 * entries.len() as u64);
        for (i, entry) in entries.iter().enumerate() {
            let at = at + 24 * i as u64;
            self.put_u64(at, entry.value);
            self.put_u64(at + 8, entry.address);
            self.put_u64(at + 16, u64::from(entry.flags) | u64::from(entry.reserved) << 32);
        }
        at
    }

    /// futex_waitv(2). Its clock is used only if a timeout is added.
    pub fn waitv(&self, entries: &[Entry]) -> Call {
        self.raw_waitv(self.entries(entries), entries.len() as u64)
    }

    pub fn raw_waitv(&self, entries: u64, count: u64) -> Call {
        Call::new(Number::FutexWaitv, [entries, count, 0, 0, libc::CLOCK_MONOTONIC as u64, 0])
    }

    /// futex_wake(2).
    pub fn wake2(&self, word: impl Into<u64>, mask: u64, count: i32) -> Call {
        Call::new(Number::FutexWake, [word.into(), mask, count as u32 as u64, self.flags().into(), 0, 0])
    }

    /// futex_wait(2).
    pub fn wait2(&self, word: impl Into<u64>, expected: u64, mask: u64) -> Call {
        let clock = libc::CLOCK_MONOTONIC as u64;
        Call::new(Number::FutexWait, [word.into(), expected, mask, self.flags().into(), 0, clock])
    }

    /// futex_requeue(2).
    pub fn requeue2(&self, entries: &[Entry; 2], wake: i32, requeue: i32) -> Call {
        let args = [self.entries(entries), 0, wake as u32 as u64, requeue as u32 as u64, 0, 0];
        Call::new(Number::FutexRequeue, args)
    }

    pub fn set_robust_list(&self, head: u64, length: u64) -> Call {
        Call::new(Number::SetRobustList, [head, length, 0, 0, 0, 0])
    }

    pub fn get_robust_list(&self, tid: u32, head: u64, length: u64) -> Call {
        Call::new(Number::GetRobustList, [tid.into(), head, length, 0, 0, 0])
    }

    pub fn set_tid_address(&self, word: impl Into<u64>) -> Call {
        Call::new(Number::SetTidAddress, [word.into(), 0, 0, 0, 0, 0])
    }

    /// Writes a time that has passed on every clock, and returns its address.
    pub fn past(&self) -> u64 {
        self.raw_time(0, 1)
    }

    /// Writes a deadline that is not reached during a test, and returns its address.
    pub fn far(&self, clock: libc::clockid_t) -> u64 {
        self.time_from_now(clock, Duration::from_secs(1000))
    }

    /// Checks that exactly `count` threads wait on `word`, by waking them.
    #[track_caller]
    pub fn assert_waiters(&self, word: Word, count: isize) {
        assert_eq!(self.thread().call(self.wake(word, ALL)), count, "threads that wait on the word");
    }

    /// Repeats `attempt` with longer and longer timeouts until it returns true: its steps came before the timeout. On a
    /// busy host they may come too late, which is no failure of the tested machine, so what `attempt` asserts has to hold in
    /// both cases. It is called with a timeout of a nanosecond first, whose result is ignored, so that each run of a test
    /// has the late case.
    #[track_caller]
    pub fn in_time(&self, attempt: impl Fn(Duration) -> bool) {
        let mut times = (0..10).map(|i| Duration::from_millis(15 << i));
        attempt(Duration::from_nanos(1));
        assert!(times.any(attempt), "nothing came in time, not even within seconds");
    }
}

/// Starts one call on each thread, in order, and returns when all threads are asleep. `call` gets the thread's index.
#[track_caller]
pub fn begin_all(threads: &[Thread], call: impl Fn(usize) -> Call) -> Vec<Pending<'_>> {
    threads.iter().enumerate().map(|(i, thread)| thread.begin(call(i))).collect()
}
