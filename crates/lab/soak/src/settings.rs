//! The settings of `ufutex soak`.

use std::time::Duration;

/// Threads that a shift consists of: see [`crate::shift`].
pub const SHIFT: usize = 8;
/// Smallest number of threads: a shift in each of the two worlds.
pub const THREADS_MIN: usize = 2 * SHIFT;

/// After this time something that is due and has not come is lost. Threads may get no CPU for long.
const PATIENCE: Duration = Duration::from_secs(15);
/// As much more for each thread beyond `FEW`. Threads take turns on the CPUs: each waits for those before it, for some
/// milliseconds each.
const PATIENCE_PER_THREAD: Duration = Duration::from_millis(10);
/// A run with this many threads or fewer, as the default one has, gets no more patience and no more memory for them.
const FEW: usize = 64;

/// A length of time for people: with a decimal below 10 s.
pub fn seconds(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds < 10.0 { format!("{seconds:.1} s") } else { format!("{seconds:.0} s") }
}

/// The number of threads beyond `FEW`.
pub fn beyond_few(threads: usize) -> usize {
    threads.saturating_sub(FEW)
}

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

impl Soak {
    /// The settings in a line, with all that repeats the random choices.
    pub fn line(&self) -> String {
        let Self { threads, futures, timers, seed, .. } = self;
        let time = seconds(self.duration);
        format!("soak: {threads} threads, {futures} futures, {timers} timers, {time}, --seed {seed}")
    }

    /// See [`PATIENCE`].
    pub fn patience(&self) -> Duration {
        PATIENCE + PATIENCE_PER_THREAD * u32::try_from(beyond_few(self.threads)).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_grows_with_the_threads_beyond_64() {
        let of = |threads| {
            let soak = Soak { duration: PATIENCE, threads, futures: 1, timers: 1, seed: 1, silent: true, json: false };
            soak.patience().as_millis()
        };
        assert_eq!([16, 64, 65, 16_384].map(of), [15_000, 15_000, 15_010, 178_200]);
    }

    #[test]
    fn short_times_have_decimals() {
        let shown = [0.25, 0.5, 9.0, 10.0, 10.6, 3600.0].map(|time| seconds(Duration::from_secs_f64(time)));
        assert_eq!(shown, ["0.2 s", "0.5 s", "9.0 s", "10 s", "11 s", "3600 s"]);
    }
}
