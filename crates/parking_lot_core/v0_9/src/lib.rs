//! `parking_lot_core` 0.9 on ufutex's table: the same API, for `[patch.crates-io]`.
//!
//! Keys are addresses. A callback that is said to run with the queue locked must not call any function of this crate. If one
//! panics, which the published crate forbids, the panic goes on, the queue is unlocked, and nobody has been unparked or
//! moved.

#![warn(missing_docs)]

pub use ufutex_parking::{
    DEFAULT_PARK_TOKEN, DEFAULT_UNPARK_TOKEN, FilterOp, ParkResult, ParkToken, RequeueOp, SpinWait, UnparkToken,
};

use std::time::Instant;
use ufutex_parking::{Outcome, fairness};

/// What an unpark does.
#[derive(Copy, Clone, Default, Eq, PartialEq, Debug)]
pub struct UnparkResult {
    /// How many threads were unparked.
    pub unparked_threads: usize,

    /// How many threads were moved to another key.
    pub requeued_threads: usize,

    /// Whether other threads stay parked at the key.
    pub have_more_threads: bool,

    /// Whether this unpark had better be fair. True every half millisecond for a key, on average, when a thread was
    /// unparked.
    pub be_fair: bool,

    /// More fields may come.
    _sealed: (),
}

impl UnparkResult {
    #[inline]
    fn new(outcome: Outcome, key: usize) -> Self {
        Self {
            unparked_threads: outcome.unparked,
            requeued_threads: outcome.requeued,
            have_more_threads: outcome.others,
            be_fair: outcome.unparked != 0 && fairness::is_due(key),
            _sealed: (),
        }
    }
}

/// Parks the calling thread at `key`, at the end of the queue, until it is unparked or the timeout passes.
///
/// `validate` runs with the queue locked; if it says no the thread is not parked. `before_sleep` runs unlocked, with the
/// thread queued; it may unpark others, and must not park. `timed_out` runs with the queue locked, after the timeout: it is
/// told the key of the queue that the thread was in, which a requeue may have changed, and whether it was the last there.
///
/// # Safety
/// The caller controls what lies at the address, so that nobody else's threads are meant by it, and the callbacks keep to
/// what is said above.
#[inline]
pub unsafe fn park(
    key: usize,
    validate: impl FnOnce() -> bool,
    before_sleep: impl FnOnce(),
    timed_out: impl FnOnce(usize, bool),
    park_token: ParkToken,
    timeout: Option<Instant>,
) -> ParkResult {
    // SAFETY: the caller promises the same.
    unsafe { ufutex_parking::park(key, validate, before_sleep, timed_out, park_token, timeout) }
}

/// Unparks the first thread at `key`.
///
/// `callback` runs with the queue locked, before the thread is woken. It is told what the unpark does, and says what the
/// thread is told.
///
/// # Safety
/// The caller controls what lies at the address, so that nobody else's threads are meant by it, and the callbacks keep to
/// what is said above.
#[inline]
pub unsafe fn unpark_one(key: usize, callback: impl FnOnce(UnparkResult) -> UnparkToken) -> UnparkResult {
    let mut result = UnparkResult::default();
    let callback = |outcome| {
        result = UnparkResult::new(outcome, key);
        callback(result)
    };
    // SAFETY: the caller promises the same.
    unsafe { ufutex_parking::unpark_one(key, callback) };
    result
}

/// Unparks all threads at `key`, and tells each the same. Answers how many.
///
/// # Safety
/// The caller controls what lies at the address, so that nobody else's threads are meant by it, and the callbacks keep to
/// what is said above.
#[inline]
pub unsafe fn unpark_all(key: usize, unpark_token: UnparkToken) -> usize {
    // SAFETY: the caller promises the same.
    unsafe { ufutex_parking::unpark_all(key, unpark_token) }
}

/// Unparks a thread at `key_from`, or moves threads to the end of the queue of `key_to`, or both, as `validate` says.
///
/// Both callbacks run with both queues locked. `callback` is told what is done, and says what an unparked thread is told;
/// it does not run if `validate` says [`RequeueOp::Abort`].
///
/// # Safety
/// The caller controls what lies at the address, so that nobody else's threads are meant by it, and the callbacks keep to
/// what is said above.
#[inline]
pub unsafe fn unpark_requeue(
    key_from: usize,
    key_to: usize,
    validate: impl FnOnce() -> RequeueOp,
    callback: impl FnOnce(RequeueOp, UnparkResult) -> UnparkToken,
) -> UnparkResult {
    let mut result = UnparkResult::default();
    let callback = |op, outcome| {
        result = UnparkResult::new(outcome, key_from);
        callback(op, result)
    };
    // SAFETY: the caller promises the same.
    unsafe { ufutex_parking::unpark_requeue(key_from, key_to, validate, callback) };
    result
}

/// Unparks those threads at `key` that `filter` chooses by their park tokens, asked from the first on.
///
/// Both callbacks run with the queue locked. `callback` is told what is done, and says what the unparked threads are told.
///
/// # Safety
/// The caller controls what lies at the address, so that nobody else's threads are meant by it, and the callbacks keep to
/// what is said above.
#[inline]
pub unsafe fn unpark_filter(
    key: usize,
    filter: impl FnMut(ParkToken) -> FilterOp,
    callback: impl FnOnce(UnparkResult) -> UnparkToken,
) -> UnparkResult {
    let mut result = UnparkResult::default();
    let callback = |outcome| {
        result = UnparkResult::new(outcome, key);
        callback(result)
    };
    // SAFETY: the caller promises the same.
    unsafe { ufutex_parking::unpark_filter(key, filter, callback) };
    result
}

/// Finding deadlocks, with the feature `deadlock_detection`.
pub mod deadlock {
    #[cfg(feature = "deadlock_detection")]
    pub use ufutex_parking::deadlock::DeadlockedThread;

    /// The calling thread has acquired `key`. Call it afterwards. Does nothing without the feature.
    ///
    /// # Safety
    /// The thread releases it, too, and says so.
    #[inline]
    pub unsafe fn acquire_resource(_key: usize) {
        #[cfg(feature = "deadlock_detection")]
        ufutex_parking::deadlock::acquire(_key);
    }

    /// The calling thread is about to release `key`. Does nothing without the feature.
    ///
    /// # Safety
    /// The thread has said that it acquired it.
    ///
    /// # Panics
    /// If it has not.
    #[inline]
    pub unsafe fn release_resource(_key: usize) {
        #[cfg(feature = "deadlock_detection")]
        assert!(ufutex_parking::deadlock::release(_key), "a resource is released that was not acquired");
    }

    /// All deadlocks since the last call, each with its threads, which stay blocked for good.
    #[cfg(feature = "deadlock_detection")]
    #[must_use]
    pub fn check_deadlock() -> Vec<Vec<DeadlockedThread>> {
        ufutex_parking::deadlock::check()
    }
}
