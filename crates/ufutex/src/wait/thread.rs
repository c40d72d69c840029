//! Threads that wait: they sleep in futex(2) itself, on a word in their own entry.
//!
//! So the kernel and /proc show such a thread as one that waits for a futex.

use super::{Signal, WAITING};
use crate::sys::clock::Deadline;
use crate::sys::park::Parked;

impl Signal {
    /// Sleeps until a wake comes or `deadline` passes. Returns whether a wake has come.
    pub(crate) fn sleep(&self, deadline: Option<&Deadline>) -> bool {
        // The kernel lengthens each sleep by the thread's timer slack, even one whose deadline has passed. So do not
        // begin such a sleep.
        if deadline.is_some_and(Deadline::has_passed) {
            return self.is_woken();
        }
        while !self.is_woken() {
            if self.state.park(WAITING, deadline) == Parked::TimedOut {
                return self.is_woken();
            }
        }
        true
    }
}
