//! Limits of a process's timers.

use crate::error::Error;

/// The limits on the timers of one process.
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
    /// Default for [`max_timers`](Self::max_timers): 65,536, which take some 9 MiB. The kernel's limit is
    /// `RLIMIT_SIGPENDING`, by default half the maximum number of threads: about 62,000 on a machine with 16 GiB.
    pub const DEFAULT_MAX_TIMERS: usize = 1 << 16;

    /// Makes the default limits: [`DEFAULT_MAX_TIMERS`](Self::DEFAULT_MAX_TIMERS), and all IDs that the kernel has.
    #[must_use]
    pub const fn new() -> Self {
        Self { max_timers: Self::DEFAULT_MAX_TIMERS, max_id: i32::MAX }
    }

    /// Sets the number of timers that a process may have. One more is `EAGAIN`. A timer counts from the beginning of the
    /// call that makes it until the call that deletes it has returned. `usize::MAX` means as many as there is
    /// memory for. Processes whose timers are due are served 64 timers at a time in turn, so many timers of one process
    /// do not delay the timers of another.
    #[must_use]
    pub const fn max_timers(mut self, timers: usize) -> Self {
        self.max_timers = timers;
        self
    }

    /// Sets the highest ID that is handed out, one less than a power of two. Default: 2^31 - 1, as in the kernel.
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
