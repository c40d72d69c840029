//! Waits for something that takes another thread a moment: yields the CPU first, and sleeps later.

use std::time::{Duration, Instant};

/// How long a thread has waited.
#[derive(Default)]
pub(crate) struct Patience {
    waits: u32,
    /// When the first wait that slept began.
    sleeps_since: Option<Instant>,
}

/// The number of waits after which [`Patience::has_waited_often`] is true.
const OFTEN: u32 = 10;
/// The number of waits that only yield the CPU. Later waits sleep, so that the other thread can run even if this one
/// has a higher priority.
const YIELDS: u32 = 100;
/// How long [`Patience::is_left`] waits in all. A thread that has lost its CPU on a loaded machine returns earlier.
pub(crate) const LONGEST: Duration = Duration::from_secs(5);

impl Patience {
    /// Waits a moment.
    pub fn wait(&mut self) {
        if self.waits < YIELDS {
            std::thread::yield_now();
        } else {
            std::thread::sleep(Duration::from_micros(50));
        }
        self.count_wait();
    }

    /// Counts a wait, and does not wait.
    pub fn count_wait(&mut self) {
        self.waits = self.waits.saturating_add(1);
    }

    /// Whether more than [`OFTEN`] waits have been counted.
    pub fn has_waited_often(&self) -> bool {
        self.waits > OFTEN
    }

    /// Waits a moment, and returns `true`. Returns `false` at once if it has waited for [`LONGEST`].
    pub fn is_left(&mut self) -> bool {
        let is_left = self.waits < YIELDS || self.sleeps_since.get_or_insert_with(Instant::now).elapsed() < LONGEST;
        if is_left {
            self.wait();
        }
        is_left
    }
}
