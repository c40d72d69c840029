//! Drop of a future against a wake, with a second waiter behind it.
//!
//! The interleavings looked for: a wake takes the future's entry, and the future is dropped before it has reported the
//! wake, so that the wake is counted and lost; or the entry's memory is freed before the waker signals. A dropped
//! future waits for the waker that has taken its entry ([J]), and passes the wake on.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use loom::thread;
use ufutex_loom::{Scheme, WaitOptions, Waiter};

use crate::support::{PAIR, World, catches, check_pair};

/// Queues ahead of the second waiter, whichever comes first.
const FIRST: WaitOptions = WaitOptions::new().realtime_priority(1);

/// Polls a future up to `polls` times and drops it. Returns whether it was ready.
fn poll_and_drop(world: &World, polls: usize) -> bool {
    let mut future = pin!(world.domain.wait_async(&world.word, 0, &FIRST));
    (0..polls).any(|_| future.as_mut().poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(Ok(())))
}

fn drop_against_wake(scheme: Scheme, polls: usize) {
    let world = World::with_slots_of(scheme, 2);
    let mut waiter = pin!(Waiter::new());
    let mut second = world.queue(waiter.as_mut()).expect("the word holds 0");
    let dropped = {
        let world = world.clone();
        thread::spawn(move || poll_and_drop(&world, polls))
    };
    assert_eq!(world.domain.wake(&world.word, 1), 1, "the second waiter was there all the time");
    let is_reported = dropped.join().unwrap();
    assert_ne!(is_reported, second.is_woken(), "one wake, one waiter that hears of it");
    _ = second.cancel();
}

fn dropped_at_once() {
    drop_against_wake(Scheme::Live, 1);
}

#[test]
fn a_dropped_future_passes_its_wake_on() {
    check_pair(dropped_at_once);
    check_pair(|| drop_against_wake(Scheme::Atomic, 1));
}

#[test]
fn a_future_reports_its_wake_or_passes_it_on() {
    check_pair(|| drop_against_wake(Scheme::Live, 2));
}

/// A third waiter comes, with a better priority, before or after the wake. If after, the wake that the dropped future
/// passes on is not for it.
fn third_comes_ahead() {
    let world = World::with_slots(2);
    let mut waiters = [pin!(Waiter::new()), pin!(Waiter::new())];
    let [first, second] = &mut waiters;
    let first = world.queue(first.as_mut()).expect("the word holds 0");
    let mut second = world.queue(second.as_mut()).expect("the word holds 0");
    let late = {
        let world = world.clone();
        thread::spawn(move || {
            let mut third = pin!(Waiter::new());
            let late = world.domain.prepare_with(third.as_mut(), &world.word, 0, &FIRST, Waker::noop().clone());
            !late.expect("the word holds 0").cancel()
        })
    };
    assert_eq!(world.domain.wake(&world.word, 1), 1);
    let has_first = first.is_woken();
    drop(first);
    let has_late = late.join().unwrap();
    assert_eq!(second.is_woken(), has_first, "a wake of one that was there goes to one that was there");
    assert_ne!(has_first, has_late, "one wake, one waiter");
    _ = second.cancel();
}

#[test]
fn a_wake_is_passed_on_to_one_that_was_there() {
    check_pair(third_comes_ahead);
}

catches!(future_drop_catches_overtakes_unnoticed, OvertakesUnnoticed, PAIR, third_comes_ahead);
catches!(future_drop_catches_drop_loses_wake, DropLosesWake, PAIR, dropped_at_once);
catches!(future_drop_catches_drop_skips_handover, DropSkipsHandover, PAIR, dropped_at_once);
