//! `parking_lot_core` 0.9 on ufutex's table: the same API, for `[patch.crates-io]`.
//!
//! Keys are addresses. A callback that runs with the queue locked must not call any function of this crate. If a
//! callback panics, which the published crate forbids, the queue is unlocked, no thread has been unparked or moved, and
//! the panic continues in the caller.

#![warn(missing_docs)]

pub use ufutex_parking::{
    DEFAULT_PARK_TOKEN, DEFAULT_UNPARK_TOKEN, FilterOp, ParkResult, ParkToken, RequeueOp, SpinWait, UnparkToken,
};

use std::time::Instant;
use ufutex_parking::{Outcome, fairness};

/// The effect of an unpark.
#[derive(Copy, Clone, Default, Eq, PartialEq, Debug)]
pub struct UnparkResult {
    /// Number of threads that were unparked.
    pub unparked_threads: usize,

    /// Number of threads that were moved to another key.
    pub requeued_threads: usize,

    /// Whether other threads stay parked at the key.
    pub have_more_threads: bool,

    /// Whether this unpark should be fair. `true` about every half millisecond per key, and only if a thread was
    /// unparked.
    pub be_fair: bool,

    /// Prevents construction elsewhere, so that fields can be added.
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
/// `validate` runs with the queue locked. If it returns `false`, the thread does not park. `before_sleep` runs with the
/// queue unlocked, when the thread is queued. It may unpark other threads, and must not park. `timed_out` runs with the
/// queue locked, after the timeout. Its arguments are the key of the thread's queue, which a requeue may have changed,
/// and whether the thread was the last one there.
///
/// # Safety
/// The caller controls the object at the address, so that no other code parks at it. The callbacks keep to the above.
#[inline]
pub unsafe fn park(
    key: usize,
    validate: impl FnOnce() -> bool,
    before_sleep: impl FnOnce(),
    timed_out: impl FnOnce(usize, bool),
    park_token: ParkToken,
    timeout: Option<Instant>,
) -> ParkResult {
    // SAFETY: this function has the same conditions.
    unsafe { ufutex_parking::park(key, validate, before_sleep, timed_out, park_token, timeout) }
}

/// Unparks the first thread at `key`.
///
/// `callback` runs with the queue locked, before the thread is woken. It gets the effect and returns a token.
///
/// # Safety
/// The caller controls the object at the address, so that no other code parks at it. The callback keeps to the above.
#[inline]
pub unsafe fn unpark_one(key: usize, callback: impl FnOnce(UnparkResult) -> UnparkToken) -> UnparkResult {
    let mut result = UnparkResult::default();
    let callback = |outcome| {
        result = UnparkResult::new(outcome, key);
        callback(result)
    };
    // SAFETY: this function has the same conditions.
    unsafe { ufutex_parking::unpark_one(key, callback) };
    result
}

/// Unparks all threads at `key` with one token. Returns their number.
///
/// # Safety
/// The caller controls the object at the address, so that no other code parks threads at this key.
#[inline]
pub unsafe fn unpark_all(key: usize, unpark_token: UnparkToken) -> usize {
    // SAFETY: this function has the same conditions.
    unsafe { ufutex_parking::unpark_all(key, unpark_token) }
}

/// Unparks a thread at `key_from`, moves threads from there to the end of `key_to`'s queue, or both, by `validate`.
///
/// Both callbacks run with both queues locked. `callback` gets the decision and its effect, and returns the token for
/// an unparked thread. It does not run if `validate` returns [`RequeueOp::Abort`].
///
/// # Safety
/// The caller controls the objects at both addresses, so that no other code parks there. Callbacks keep to the above.
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
    // SAFETY: this function has the same conditions.
    unsafe { ufutex_parking::unpark_requeue(key_from, key_to, validate, callback) };
    result
}

/// Unparks the threads at `key` that `filter` chooses. It is called with their park tokens, in queue order.
///
/// Both callbacks run with the queue locked. `callback` gets the effect, and returns the unparked threads' token.
///
/// # Safety
/// The caller controls the object at the address, so that no other code parks at it. The callbacks keep to the above.
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
    // SAFETY: this function has the same conditions.
    unsafe { ufutex_parking::unpark_filter(key, filter, callback) };
    result
}

/// Finding deadlocks, with the feature `deadlock_detection`.
pub mod deadlock {
    #[cfg(feature = "deadlock_detection")]
    pub use ufutex_parking::deadlock::DeadlockedThread;

    /// Notes that the calling thread has acquired `key`. Call it after acquiring. Does nothing without the feature.
    ///
    /// # Safety
    /// The thread calls [`release_resource`] before it releases the key.
    #[inline]
    pub unsafe fn acquire_resource(_key: usize) {
        #[cfg(feature = "deadlock_detection")]
        ufutex_parking::deadlock::acquire(_key);
    }

    /// Notes that the calling thread is about to release `key`. Does nothing without the feature.
    ///
    /// # Safety
    /// The thread has called [`acquire_resource`] for this key.
    ///
    /// # Panics
    /// If the thread has not called it.
    #[inline]
    pub unsafe fn release_resource(_key: usize) {
        #[cfg(feature = "deadlock_detection")]
        assert!(ufutex_parking::deadlock::release(_key), "a resource is released that was not acquired");
    }

    /// Returns the deadlocks since the last call, each as a list of its threads, which stay blocked for good.
    #[cfg(feature = "deadlock_detection")]
    #[must_use]
    pub fn check_deadlock() -> Vec<Vec<DeadlockedThread>> {
        ufutex_parking::deadlock::check()
    }
}
