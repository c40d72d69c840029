//! `parking_lot_core` on ufutex: the part that the lines 0.9 and 0.10 share.
//!
//! Programs depend on the packages named `parking_lot_core` in `v0_9` and `v0_10`, not on this one. If a program has
//! both, they share one lot. See the README.

#[cfg(feature = "deadlock_detection")]
pub mod deadlock;
pub mod fairness;
mod spin_wait;
mod token;

use std::sync::OnceLock;
use std::time::Instant;

use ufutex::parking::{Filter, Parked, ParkingLot};
use ufutex::platform::Deadline;
use ufutex::{System, Timeout};

pub use spin_wait::SpinWait;
pub use token::{DEFAULT_PARK_TOKEN, DEFAULT_UNPARK_TOKEN, FilterOp, ParkResult, ParkToken, RequeueOp, UnparkToken};

/// The lot in which all threads of the program park. The first park or unpark makes it, and it is never freed.
static LOT: OnceLock<ParkingLot> = OnceLock::new();

/// The program's lot.
#[inline(always)]
pub fn lot() -> &'static ParkingLot {
    match LOT.get() {
        Some(lot) => lot,
        None => make_lot(),
    }
}

#[cold]
#[inline(never)]
fn make_lot() -> &'static ParkingLot {
    LOT.get_or_init(|| ParkingLot::new(&System::new()))
}

/// The effect of an unpark: the fields that both lines' `UnparkResult` has.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// The number of threads that are unparked.
    pub unparked: usize,
    /// The number of threads that are moved to another key.
    pub requeued: usize,
    /// Whether other threads stay parked at the key.
    pub others: bool,
}

/// Parks the calling thread: see either line's `park`.
///
/// # Safety
/// The callbacks that run with the queue locked do not park or unpark any thread. (It would be a deadlock.)
#[inline]
pub unsafe fn park(
    key: usize,
    validate: impl FnOnce() -> bool,
    before_sleep: impl FnOnce(),
    timed_out: impl FnOnce(usize, bool),
    park_token: ParkToken,
    timeout: Option<Instant>,
) -> ParkResult {
    let deadline = timeout.map(deadline);
    let before_sleep = |_place| {
        before_sleep();
        // After `before_sleep`, which may release locks: the detector must have noted that.
        #[cfg(feature = "deadlock_detection")]
        deadlock::parked(_place, deadline.is_some())
    };
    match lot().park(key, park_token.0, validate, before_sleep, timed_out, deadline.as_ref()) {
        Parked::Unparked(token) => {
            #[cfg(feature = "deadlock_detection")]
            deadlock::stay_if_found();
            ParkResult::Unparked(UnparkToken(token))
        }
        Parked::Invalid => ParkResult::Invalid,
        Parked::TimedOut => ParkResult::TimedOut,
    }
}

fn deadline(at: Instant) -> Deadline {
    Timeout::from(at).begin()
}

/// Unparks one thread: see either line's `unpark_one`.
///
/// # Safety
/// As for [`park`].
#[inline]
pub unsafe fn unpark_one(key: usize, callback: impl FnOnce(Outcome) -> UnparkToken) -> Outcome {
    let mut queue = lot().lock(key);
    let outcome = Outcome { unparked: usize::from(!queue.is_empty()), requeued: 0, others: queue.has_several() };
    let token = callback(outcome);
    queue.unpark_first(token.0);
    outcome
}

/// Unparks all threads: see either line's `unpark_all`.
///
/// # Safety
/// As for [`park`].
#[inline]
pub unsafe fn unpark_all(key: usize, unpark_token: UnparkToken) -> usize {
    lot().lock(key).unpark_all(unpark_token.0)
}

/// Unparks a thread, moves threads, or both: see either line's `unpark_requeue`.
///
/// # Safety
/// As for [`park`].
#[inline]
pub unsafe fn unpark_requeue(
    key_from: usize,
    key_to: usize,
    validate: impl FnOnce() -> RequeueOp,
    callback: impl FnOnce(RequeueOp, Outcome) -> UnparkToken,
) -> Outcome {
    let mut queues = lot().lock_both(key_from, key_to);
    let op = validate();
    let (unpark, requeue) = match op {
        RequeueOp::Abort => return Outcome::default(),
        RequeueOp::UnparkOneRequeueRest => (1, usize::MAX - 1),
        RequeueOp::RequeueAll => (0, usize::MAX),
        RequeueOp::UnparkOne => (1, 0),
        RequeueOp::RequeueOne => (0, 1),
    };
    // Counts up to one thread more than the operation takes, to know whether others stay parked.
    let waiting = queues.count((unpark + requeue).saturating_add(1));
    let unparked = unpark.min(waiting);
    let requeued = requeue.min(waiting - unparked);
    let outcome = Outcome { unparked, requeued, others: waiting > unparked + requeued };
    let token = callback(op, outcome);
    queues.unpark_and_requeue(unparked != 0, requeued, token.0);
    outcome
}

/// Unparks the threads that `filter` chooses: see either line's `unpark_filter`.
///
/// # Safety
/// As for [`park`].
#[inline]
pub unsafe fn unpark_filter(
    key: usize,
    mut filter: impl FnMut(ParkToken) -> FilterOp,
    callback: impl FnOnce(Outcome) -> UnparkToken,
) -> Outcome {
    let mut queue = lot().lock(key);
    let filtered = queue.filter(|token| match filter(ParkToken(token)) {
        FilterOp::Unpark => Filter::Unpark,
        FilterOp::Skip => Filter::Skip,
        FilterOp::Stop => Filter::Stop,
    });
    let outcome = Outcome { unparked: filtered.picked, requeued: 0, others: filtered.others };
    let token = callback(outcome);
    queue.unpark_picked(filtered, token.0);
    outcome
}

/// Runs `operation`, and aborts the program if it panics. The 0.10 line does not unwind.
#[inline(always)]
pub fn without_unwinding<R>(operation: impl FnOnce() -> R) -> R {
    struct Abort;
    impl Drop for Abort {
        #[cold]
        fn drop(&mut self) {
            // The panic has been reported already.
            std::process::abort();
        }
    }
    let abort = Abort;
    let result = operation();
    std::mem::forget(abort);
    result
}
