//! parking_lot_core: one table for the process. It grows with the threads that have parked, and never shrinks.

use super::{Futex, Target, Waited};
use parking_lot_core::{DEFAULT_PARK_TOKEN, DEFAULT_UNPARK_TOKEN, FilterOp, ParkResult, RequeueOp};
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

/// All instances use the same table.
pub struct ParkingLot;

fn key(word: &AtomicU32) -> usize {
    word.as_ptr() as usize
}

fn park(word: &AtomicU32, expected: u32, before_sleep: impl FnOnce()) -> Waited {
    let validate = || word.load(Ordering::Relaxed) == expected;
    let timed_out = |_key, _was_last| {};
    // SAFETY: no other code parks on the address of this word. The closures do not panic or call parking_lot_core.
    let result =
        unsafe { parking_lot_core::park(key(word), validate, before_sleep, timed_out, DEFAULT_PARK_TOKEN, None) };
    match result {
        ParkResult::Unparked(_) => Waited::Woken,
        ParkResult::Invalid => Waited::Differs,
        ParkResult::TimedOut => Waited::Failed,
    }
}

impl Target for ParkingLot {
    #[inline(always)]
    fn wait(&self, word: &AtomicU32, expected: u32) -> Waited {
        park(word, expected, || {})
    }

    #[inline(always)]
    fn wake(&self, word: &AtomicU32) -> usize {
        // SAFETY: as in `park`.
        unsafe { parking_lot_core::unpark_one(key(word), |_| DEFAULT_UNPARK_TOKEN) }.unparked_threads
    }

    #[inline(always)]
    fn wake_many(&self, word: &AtomicU32, count: usize) -> usize {
        let left = Cell::new(count);
        let filter = |_token| {
            if left.get() == 0 {
                return FilterOp::Stop;
            }
            left.set(left.get() - 1);
            FilterOp::Unpark
        };
        // SAFETY: as in `park`.
        unsafe { parking_lot_core::unpark_filter(key(word), filter, |_| DEFAULT_UNPARK_TOKEN) }.unparked_threads
    }

    /// The comparison is a closure that runs with both buckets locked. There is no count: all waiters are moved.
    #[inline(always)]
    fn cmp_requeue(&self, from: &AtomicU32, to: &AtomicU32, _count: usize) -> usize {
        let validate = || if from.load(Ordering::Relaxed) == 0 { RequeueOp::RequeueAll } else { RequeueOp::Abort };
        // SAFETY: as in `park`.
        let result =
            unsafe { parking_lot_core::unpark_requeue(key(from), key(to), validate, |_, _| DEFAULT_UNPARK_TOKEN) };
        result.requeued_threads
    }

    fn wait_announced(&self, word: &AtomicU32, expected: u32, queued: &mut dyn FnMut()) -> Option<Waited> {
        Some(park(word, expected, queued))
    }

    fn buckets(&self) -> Option<usize> {
        None
    }
}

impl Futex for ParkingLot {
    type Task = ();

    fn task(&self) {}
}
