//! The results that calls may have.

/// Errors of the calls on futexes, with the codes for interrupted calls.
pub const OF_FUTEXES: &[i64] = &[1, 3, 4, 11, 12, 14, 16, 22, 35, 38, 110, 512, 513, 516];
/// Errors of the calls on timers.
pub const OF_TIMERS: &[i64] = &[11, 14, 16, 22, 95];

/// Checks that a result is no error, or one of `errors`.
pub fn check(result: i64, errors: &[i64], what: impl core::fmt::Debug) {
    assert!(result >= 0 || errors.contains(&-result), "{result} of {what:?}");
}
