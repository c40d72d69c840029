//! Limits of a process's timers.

use crate::error::Error;

/// What limits there are on the timers of one process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimerOptions {
    max_timers: usize,
    max_id: i32,
}

impl Default for TimerOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl TimerOptions {
    /// No limit but memory, and all IDs of the kernel.
    #[must_use]
    pub const fn new() -> Self {
        Self { max_timers: usize::MAX, max_id: i32::MAX }
    }

    /// How many timers there may be: `EAGAIN` beyond it. The kernel has its `RLIMIT_SIGPENDING`.
    #[must_use]
    pub const fn max_timers(mut self, timers: usize) -> Self {
        self.max_timers = timers;
        self
    }

    /// The greatest ID that is handed out, one less than a power of two. Default: 2^31 - 1, as in the kernel.
    #[must_use]
    pub const fn max_id(mut self, id: i32) -> Self {
        self.max_id = id;
        self
    }

    pub(super) fn limit(self) -> usize {
        self.max_timers
    }

    pub(super) fn id_mask(self) -> Result<u32, Error> {
        let mask = u32::try_from(self.max_id).map_err(|_| Error::Invalid)?;
        if (mask + 1).is_power_of_two() { Ok(mask) } else { Err(Error::Invalid) }
    }
}
