//! The settings of `ufutex soak`.

use std::time::Duration;

/// Threads that a shift consists of: see [`crate::shift`].
pub const SHIFT: usize = 8;
/// Smallest number of threads: a shift in each of the two worlds.
pub const THREADS_MIN: usize = 2 * SHIFT;

/// Settings of `ufutex soak`.
pub struct Soak {
    /// How long the threads work.
    pub duration: Duration,
    /// Number of threads, without those that resize, interrupt and turn the drivers.
    pub threads: usize,
    /// Number of futures that wait at a time.
    pub futures: usize,
    /// Number of timers at a time.
    pub timers: usize,
    /// Seed of the random choices.
    pub seed: u64,
    /// No progress.
    pub silent: bool,
    /// Print one JSON object.
    pub json: bool,
}
