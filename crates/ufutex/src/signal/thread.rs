//! Threads that sleep on the word in their own entry, by their platform. On Linux that is futex(2) itself, so the
//! kernel and /proc show such a thread as one that waits for a futex. Most threads there sleep on the word of a group
//! instead: see `group`.

use super::{Signal, WAITING};
use crate::sys::clock::Deadline;
use crate::sys::park::ParkEnd;
use crate::sys::platform::PlatformRef;

impl Signal {
    /// Sleeps until a wake comes or `deadline` passes. Returns whether a wake has come.
    pub(crate) fn sleep(&self, on: PlatformRef, deadline: Option<&Deadline>) -> bool {
        // The kernel lengthens each sleep by the thread's timer slack, even one whose deadline has passed. So do not
        // begin such a sleep.
        if deadline.is_some_and(|deadline| on.has_passed(deadline)) {
            return self.is_woken();
        }
        while !self.is_woken() {
            if self.state.park(on, WAITING, deadline) == ParkEnd::TimedOut {
                return self.is_woken();
            }
        }
        true
    }
}
