//! There is no prctl(2) here, so no script runs on the host.

use crate::prctl::Call;

/// Why there is nothing to compare with.
pub fn lacks() -> Option<&'static str> {
    Some("PR_FUTEX_HASH is Linux's")
}

/// Never called: each test asks [`lacks`] first.
pub fn run(_calls: &[Call]) -> Vec<isize> {
    unreachable!("there is no prctl(2)")
}
