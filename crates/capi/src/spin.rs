//! Waiting for what takes another thread a moment.

use std::time::Duration;

/// How long has been waited.
#[derive(Default)]
pub(crate) struct Patience(u32);

/// So many looks give up the CPU in between; those after them sleep, so that whoever is waited for can run, whatever our
/// priority is.
const YIELDS: u32 = 100;
const LIMIT: u32 = 2 * YIELDS;

impl Patience {
    /// Waits a moment.
    pub fn wait(&mut self) {
        if self.0 < YIELDS {
            std::thread::yield_now();
        } else {
            std::thread::sleep(Duration::from_micros(50));
        }
        self.0 = self.0.saturating_add(1);
    }

    /// Waits a moment, unless that has been done for some ten milliseconds. Whether it did.
    pub fn is_left(&mut self) -> bool {
        let is_left = self.0 < LIMIT;
        if is_left {
            self.wait();
        }
        is_left
    }
}
