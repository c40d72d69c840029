//! Waiting for what takes another thread a moment.

use std::time::{Duration, Instant};

/// How long has been waited.
#[derive(Default)]
pub(crate) struct Patience {
    looks: u32,
    /// Since the first look that slept.
    sleeps_since: Option<Instant>,
}

/// So many looks give up the CPU in between; those after them sleep, so that whoever is waited for can run, whatever our
/// priority is.
const YIELDS: u32 = 100;
/// How long [`Patience::is_left`] waits in all. A thread that has lost its CPU on a loaded machine takes less.
pub(crate) const LONGEST: Duration = Duration::from_secs(5);

impl Patience {
    /// Waits a moment.
    pub fn wait(&mut self) {
        if self.looks < YIELDS {
            std::thread::yield_now();
        } else {
            std::thread::sleep(Duration::from_micros(50));
        }
        self.looks = self.looks.saturating_add(1);
    }

    /// Waits a moment, unless that has been done for [`LONGEST`]. Whether it did.
    pub fn is_left(&mut self) -> bool {
        let is_left = self.looks < YIELDS || self.sleeps_since.get_or_insert_with(Instant::now).elapsed() < LONGEST;
        if is_left {
            self.wait();
        }
        is_left
    }
}
