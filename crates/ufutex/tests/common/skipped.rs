//! Says what a suite skips: in the test's output, and in one line after the suite's result, because libtest shows the
//! output of failed tests alone. Suites of all packages have this file in them, and so do unit tests without a prelude.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::Write;
use std::string::{String, ToString};
use std::sync::{Mutex, PoisonError};
use std::vec::Vec;

/// The reasons, with the number of checks that were skipped for each.
static REASONS: Mutex<BTreeMap<String, usize>> = Mutex::new(BTreeMap::new());

// SAFETY: it is the C library's function of that name and type, and only keeps a function to call at the exit.
unsafe extern "C" {
    safe fn atexit(function: extern "C" fn()) -> core::ffi::c_int;
}

/// Says that a check is skipped. The reason names what is missing.
pub fn skip(reason: impl Display) {
    std::println!("skipped: {reason}");
    let mut reasons = REASONS.lock().unwrap_or_else(PoisonError::into_inner);
    if reasons.is_empty() {
        assert_eq!(atexit(at_exit), 0, "there is room for a function");
    }
    *reasons.entry(reason.to_string()).or_default() += 1;
}

extern "C" fn at_exit() {
    let reasons = REASONS.lock().unwrap_or_else(PoisonError::into_inner);
    let counted: Vec<String> = reasons.iter().map(|(reason, count)| std::format!("{count} x {reason}")).collect();
    let all: usize = reasons.values().sum();
    _ = std::writeln!(std::io::stderr(), "skipped checks: {all} ({})", counted.join("; "));
}
