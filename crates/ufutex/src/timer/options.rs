//! The settings of a process's timers: how many, their highest ID, whose CPU-time clocks.

use crate::sys::setters::{default_is_new, setters};

/// The settings of one process's timers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimerOptions {
    pub(super) max_timers: usize,
    pub(super) max_id: i32,
    pub(super) host_pids: bool,
}

default_is_new!(TimerOptions);

impl TimerOptions {
    /// Default for [`max_timers`](Self::max_timers): 65,536, which take some 9 MiB. The kernel's is `RLIMIT_SIGPENDING`.
    pub const DEFAULT_MAX_TIMERS: usize = 1 << 16;

    /// Makes the default settings.
    #[must_use]
    pub const fn new() -> Self {
        Self { max_timers: Self::DEFAULT_MAX_TIMERS, max_id: i32::MAX, host_pids: false }
    }

    setters! {
        /// Sets the number of timers that a process may have. One more is `EAGAIN`. A timer counts from the beginning of the call
        /// that makes it until the call that deletes it has returned. `usize::MAX` means as many as there is memory for.
        ///
        /// The limit is never exceeded. From 65,536 on, making a timer may be `EAGAIN` although others have been deleted, if other
        /// threads delete or make timers at that moment. Below that number it is exact.
        max_timers: usize => max_timers;

        /// Sets the highest ID, one less than a power of two. Default: 2^31 - 1, as in the kernel.
        max_id: i32 => max_id;

        /// Sets whether the PIDs and TIDs that [`Timers::syscall`](crate::timer::Timers::syscall) meets, in its
        /// [`Caller`](crate::timer::Caller) and in clock IDs, are the host's own. Default: no.
        ///
        /// It matters only for a driver with the host's clocks ([`Driver::host`](crate::timer::Driver::host)). If off,
        /// `timer_create` on a clock of CPU time is `EINVAL`: a guest could read the CPU time of some process of the host. If on,
        /// the guest may name any process of the host and any thread of the calling process, as Linux allows.
        host_pids: bool => host_pids;
    }
}
