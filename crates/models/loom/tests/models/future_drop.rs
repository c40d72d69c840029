//! Drop of a future against a wake, with a second waiter behind it.
//!
//! The interleavings looked for: a wake takes the future's entry and the future is dropped before it has reported, so
//! that the waker has counted somebody who never hears of it; or the entry's memory is gone when the waker signals.
//! A dropped future waits for the waker that has taken its entry ([J]), and passes the wake on.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use loom::thread;
use ufutex_loom::layout::Lean;
use ufutex_loom::scheme::{Atomic, Live, Scheme};
use ufutex_loom::{WaitOptions, Waiter};

use crate::support::{World, catches, check_pair};

/// Ahead of the second waiter in the queue, whoever comes first.
const FIRST: WaitOptions = WaitOptions::new().realtime_priority(1);

/// `polls` times; whether it was ready. Dropped at the end.
fn poll_and_drop<S: Scheme<Lean>>(world: &World<S>, polls: usize) -> bool {
    let mut future = pin!(world.domain.wait_async(&world.word, 0, FIRST));
    (0..polls).any(|_| future.as_mut().poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(Ok(())))
}

fn drop_against_wake<S: Scheme<Lean>>(polls: usize) {
    let world = World::<S>::with_slots(2);
    let mut waiter = pin!(Waiter::new());
    let second = world.queue(waiter.as_mut()).expect("the word holds 0");
    let dropped = {
        let world = world.clone();
        thread::spawn(move || poll_and_drop(&world, polls))
    };
    assert_eq!(world.domain.wake(&world.word, 1), 1, "the second waiter was there all the time");
    let is_reported = dropped.join().unwrap();
    assert_ne!(is_reported, second.is_woken(), "one wake, one waiter that hears of it");
    second.cancel();
}

fn dropped_at_once() {
    drop_against_wake::<Live>(1);
}

#[test]
fn a_dropped_future_passes_its_wake_on() {
    check_pair(dropped_at_once);
    check_pair(|| drop_against_wake::<Atomic>(1));
}

#[test]
fn a_future_reports_its_wake_or_passes_it_on() {
    check_pair(|| drop_against_wake::<Live>(2));
}

catches!(future_drop_catches_drop_loses_wake, DropLosesWake, dropped_at_once);
catches!(future_drop_catches_drop_skips_handover, DropSkipsHandover, dropped_at_once);
