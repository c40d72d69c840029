//! Statistics counters.

#[cfg(feature = "sim")]
use super::AtomicU64;

/// A statistics counter. It orders nothing: a reader learns nothing about other memory. So every access is relaxed, and
/// a model does not explore it, which would only multiply the executions. On virtual cores each access has its usual
/// cost.
#[derive(Default)]
pub struct Tally(TallyWord);

#[cfg(not(feature = "sim"))]
type TallyWord = core::sync::atomic::AtomicU64;
#[cfg(feature = "sim")]
type TallyWord = AtomicU64;

impl Tally {
    /// Starts at zero.
    pub const fn new() -> Self {
        Self(TallyWord::new(0))
    }

    /// Starts at `n`.
    pub const fn of(n: u64) -> Self {
        Self(TallyWord::new(n))
    }

    /// Adds `n`.
    pub fn add(&self, n: u64) {
        self.add_and_get(n);
    }

    /// Adds `n`. Returns the new value.
    pub fn add_and_get(&self, n: u64) -> u64 {
        self.0.fetch_add(n, core::sync::atomic::Ordering::Relaxed).wrapping_add(n)
    }

    /// Subtracts `n` if the value is at least `n`. Returns whether it did.
    #[allow(deprecated, reason = "`try_update` needs Rust 1.95, and loom's atomics do not have it")]
    pub fn take(&self, n: u64) -> bool {
        let relaxed = core::sync::atomic::Ordering::Relaxed;
        self.0.fetch_update(relaxed, relaxed, |all| all.checked_sub(n)).is_ok()
    }

    /// Raises the counter to `value` if it is less.
    #[inline]
    pub fn note_max(&self, value: u64) {
        // Most values are not greater. Then the cache line is not written.
        if value > self.get() {
            self.0.fetch_max(value, core::sync::atomic::Ordering::Relaxed);
        }
    }

    /// The current value.
    pub fn get(&self) -> u64 {
        self.0.load(core::sync::atomic::Ordering::Relaxed)
    }
}
