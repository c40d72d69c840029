//! There is no futex(2) here, so no body runs on it.

use crate::machine::{Machine, Sharing, is_possible};

/// Never called: each test asks [`is_there`] first.
pub fn machine(_sharing: Sharing) -> Machine {
    unreachable!("there is no kernel to compare with")
}

/// Whether there is a kernel to compare with. Prints the reason if not.
pub fn is_there() -> bool {
    is_possible(Some("futex(2) is Linux's: there is no kernel to compare with here".to_owned()))
}
