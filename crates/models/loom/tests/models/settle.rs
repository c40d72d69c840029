//! A waker on the waiter's stack against the end of its wait.
//!
//! The interleaving looked for: the wait ends, the stack frame goes, and the wake calls the waker, or is still in it;
//! or the wake gives the entry back while the waiter reads that the call has not ended, and both use its memory. The
//! wake gives the entry back after the call, and the waiter stays until then ([J]).

use std::pin::{Pin, pin};
use std::task::{RawWaker, RawWakerVTable, Waker};

use loom::cell::UnsafeCell;
use loom::thread;
use ufutex_loom::{Queued, Scheme, WaitOptions, Waiter};

use crate::support::{PAIR, World, catches, check_pair};

/// What the waker points to. The cell finds an access of the waker that nothing orders before the frame's end.
struct Frame(UnsafeCell<u32>);

static TABLE: RawWakerVTable = RawWakerVTable::new(|_| unreachable!("it is not cloned"), wake, wake, |_| ());

fn wake(frame: *const ()) {
    // SAFETY: what the model is about. Loom reports the access if it comes too late.
    unsafe { (*frame.cast::<Frame>()).0.with_mut(|calls| *calls += 1) };
}

impl Frame {
    fn queue<'w, 'd>(&self, world: &'d World, waiter: Pin<&'w mut Waiter<'d>>) -> Queued<'w, 'd> {
        // SAFETY: the table's functions use the frame as what it is.
        let waker = unsafe { Waker::from_raw(RawWaker::new((&raw const *self).cast(), &TABLE)) };
        world.domain.prepare_with(waiter, &world.word, 0, &WaitOptions::new(), waker).expect("the word holds 0")
    }

    /// How often the waker was called, for a thread that nothing may race with: the frame goes.
    fn end(self) -> u32 {
        // SAFETY: as in `wake`.
        self.0.with_mut(|calls| unsafe { *calls })
    }
}

/// Ends a wait in the way of `end`, which returns whether a wake was received, while a wake comes. A second waiter is
/// behind it.
fn end_against_wake(scheme: Scheme, end: fn(Queued<'_, '_>) -> bool) {
    let world = World::with_slots_of(scheme, 2);
    let frame = Frame(UnsafeCell::new(0));
    let mut waiters = [pin!(Waiter::new()), pin!(Waiter::new())];
    let [first, second] = &mut waiters;
    let first = frame.queue(&world, first.as_mut());
    let mut second = world.queue(second.as_mut()).expect("the word holds 0");
    let waker = {
        let world = world.clone();
        thread::spawn(move || world.domain.wake(&world.word, 1))
    };
    let has_received = end(first);
    let calls = frame.end();
    assert_eq!(waker.join().unwrap(), 1, "the second waiter was there all the time");
    assert!(calls == 1 || !has_received);
    assert_ne!(has_received, !second.cancel(), "one wake, one waiter that hears of it");
}

fn cancelled(scheme: Scheme) {
    end_against_wake(scheme, |mut queued| {
        let has_received = !queued.cancel();
        drop(queued);
        has_received
    });
}

fn dropped(scheme: Scheme) {
    end_against_wake(scheme, |queued| {
        drop(queued);
        false
    });
}

/// What a task does that is run again while the wake still calls its waker.
fn finished(scheme: Scheme) {
    end_against_wake(scheme, |queued| queued.is_woken() && queued.finish().is_ok());
}

#[test]
fn a_waker_has_returned_when_its_cancelled_wait_is_dropped() {
    check_pair(|| cancelled(Scheme::Live));
    check_pair(|| cancelled(Scheme::PerCpu));
}

#[test]
fn a_waker_has_returned_when_its_wait_is_dropped() {
    check_pair(|| dropped(Scheme::Live));
}

#[test]
fn a_waker_has_returned_when_its_wait_is_finished() {
    check_pair(|| finished(Scheme::Live));
}

catches!(settle_catches_returns_too_early, ReturnsTooEarly, PAIR, || cancelled(Scheme::Live));
catches!(settle_catches_it_in_a_drop, ReturnsTooEarly, PAIR, || dropped(Scheme::Live));
catches!(settle_catches_it_in_an_end, ReturnsTooEarly, PAIR, || finished(Scheme::Live));
catches!(settle_catches_return_relaxed, ReturnRelaxed, PAIR, || cancelled(Scheme::Live));
catches!(settle_catches_cancel_forgets_call, CancelForgetsCall, PAIR, || cancelled(Scheme::Live));
catches!(settle_catches_cancel_passes_on, CancelPassesOn, PAIR, || cancelled(Scheme::Live));
