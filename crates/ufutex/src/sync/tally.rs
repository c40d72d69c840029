//! Statistics counters.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// It orders nothing, so every access is relaxed, and a model does not explore it.
#[derive(Default)]
pub struct Tally(AtomicU64);

impl Tally {
    pub const fn of(n: u64) -> Self {
        Self(AtomicU64::new(n))
    }

    pub fn add(&self, n: u64) {
        self.add_and_get(n);
    }

    pub fn add_and_get(&self, n: u64) -> u64 {
        self.0.fetch_add(n, Relaxed).wrapping_add(n)
    }

    /// Subtracts `n` if the value is at least `n`. Returns whether it did.
    #[allow(deprecated, reason = "`try_update` needs Rust 1.95, and loom's atomics do not have it")]
    pub fn take(&self, n: u64) -> bool {
        self.0.fetch_update(Relaxed, Relaxed, |all| all.checked_sub(n)).is_ok()
    }

    #[inline]
    pub fn note_max(&self, value: u64) {
        // Most values are not greater, and do not write the cache line.
        if value > self.get() {
            self.0.fetch_max(value, Relaxed);
        }
    }

    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}
