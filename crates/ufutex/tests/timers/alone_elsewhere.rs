//! Runs a test on a thread of its own. On Linux it has a process of its own, because of signals and of the kernel's
//! timers, which the other hosts do not have.

use crate::common::patient::within_patience;

/// Runs `test`, and fails if it hangs.
pub fn alone(name: &str, test: impl FnOnce() + Send + 'static) {
    within_patience(name, test);
}
