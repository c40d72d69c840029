//! The counter that `atomic` uses and `percpu` falls back to: the number of operations between look-up and unlock.
//!
//! It works like the kernel's rcuref: taking a reference is one unconditional addition. A bias keeps the count from
//! reaching zero. An operation that wants to replace the table removes the bias. The thread that then brings the count
//! to zero freezes it, and new operations wait until the table has been replaced and the count thawed.

use core::hint::black_box;

use crate::sync::{AtomicU64, Ordering, Tally};
use crate::sys::platform::PlatformRef;

const FROZEN: u64 = 1 << 63;
const BIAS: u64 = 1 << 40;

/// The counter, on a cache line of its own.
#[repr(C, align(64))]
pub struct Count {
    count: AtomicU64,
    /// The number of operations that wait for the thaw: a hint for movers.
    beside: Tally,
}

impl Count {
    pub fn new() -> Self {
        Self { count: AtomicU64::new(BIAS), beside: Tally::default() }
    }

    /// Reads the counter's line, as the kernel does before it counts up and before it counts down: there, the table's
    /// mask and the flag that says whether the table is counted at all are on the counter's line. The read has one
    /// effect: a line that other CPUs want is transferred twice, first to be read and then to be changed.
    #[inline(always)]
    pub fn look(&self) {
        black_box(self.beside.get());
    }

    /// Takes a reference; waits while the count is frozen.
    #[inline(always)]
    pub fn get(&self) {
        // [H]: Acquire pairs with `thaw`, so this thread sees the table that was published before it.
        if self.count.fetch_add(1, Ordering::Acquire) & FROZEN != 0 {
            self.count.fetch_sub(1, Ordering::Relaxed);
            self.get_after_thaw();
        }
    }

    /// Takes a reference, unless the count is frozen.
    pub fn try_get(&self) -> bool {
        let is_free = self.count.fetch_add(1, Ordering::Acquire) & FROZEN == 0; // [H]
        if !is_free {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
        is_free
    }

    #[cold]
    fn get_after_thaw(&self) {
        self.beside.add(1);
        let mut round = 0;
        loop {
            while self.is_frozen() {
                PlatformRef::HOST.wait_a_moment(&mut round);
            }
            if self.try_get() {
                break;
            }
        }
        self.beside.take(1);
    }

    /// Lets operations in that have waited for the thaw since the last move, unless that takes longer than some
    /// milliseconds. A mover calls this before it closes the count. The operations are asleep, so without this, movers
    /// that follow each other closely would always get in before them.
    pub fn let_waiters_in(&self) {
        let mut round = 0;
        while round < 8 && self.beside.get() != 0 && PlatformRef::HOST.nap(&mut round) {}
    }

    /// The number of references, and the bias.
    #[cfg(all(test, feature = "std", target_os = "linux"))] // as the test that calls it
    pub fn references(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Gives a reference back.
    #[inline(always)]
    pub fn put(&self) {
        // [H]: Release pairs with the Acquire in `freeze` and `is_frozen`: the mover sees what this thread did under
        // the reference.
        if self.count.fetch_sub(1, Ordering::Release) == 1 {
            self.freeze();
        }
    }

    /// Adds references that were counted elsewhere, while the bias is on.
    pub fn add(&self, references: u64) {
        self.count.fetch_add(references, Ordering::AcqRel); // [H]
    }

    /// Takes the bias off. From now on the count can reach zero, and freezes there.
    pub fn remove_bias(&self) {
        // [H]
        if self.count.fetch_sub(BIAS, Ordering::Release) == BIAS {
            self.freeze();
        }
    }

    /// Freezes the count if there are no references.
    #[cold]
    fn freeze(&self) {
        // This fails if another thread has taken a reference meanwhile. That thread's `put` then tries again. [H]
        let _ = self.count.compare_exchange(0, FROZEN, Ordering::Acquire, Ordering::Relaxed);
    }

    /// Whether the count has reached zero and stays there.
    pub fn is_frozen(&self) -> bool {
        self.count.load(Ordering::Acquire) & FROZEN != 0 // [H]
    }

    /// Puts the bias back on, and returns `true`. `false` if the count is already frozen.
    pub fn restore_bias(&self) -> bool {
        let mut seen = self.count.load(Ordering::Relaxed);
        while seen & FROZEN == 0 {
            // [H]
            match self.count.compare_exchange_weak(seen, seen + BIAS, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }

    /// Lets operations in again.
    pub fn thaw(&self) {
        self.count.fetch_sub(FROZEN - BIAS, Ordering::Release); // [H]
    }
}
