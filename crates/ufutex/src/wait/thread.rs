//! A thread that waits: asleep in futex(2) itself, on a word in its own entry.
//!
//! To the kernel and to whoever looks into /proc it is a thread that waits for a futex, which it is.

use super::{Signal, WAITING};
use crate::sys::clock::Deadline;
use crate::sys::park::Parked;

impl Signal {
    /// Sleeps until the wake comes, at most until `deadline`; whether it came.
    pub(crate) fn sleep(&self, deadline: Option<&Deadline>) -> bool {
        // The kernel rounds a sleep up by the thread's timer slack, even one that has ended before it began.
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
