//! There is no timer_create(2) here, so no body runs on it.

use crate::common::skipped::skip;
use crate::machine::Machine;

/// Never called: each test asks [`is_as_described`] first.
pub fn machine() -> Machine {
    unreachable!("there is no kernel to compare with")
}

/// Whether this kernel behaves as the bodies expect. Prints the reason if not.
pub fn is_as_described() -> bool {
    skip("there is no timer_create(2) of Linux to compare with here");
    false
}
