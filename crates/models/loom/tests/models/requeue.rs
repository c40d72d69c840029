//! A requeue against all that can happen to the waiter that it moves: a timeout, a drop, a resize, a second requeue.
//!
//! The interleavings looked for: a thread finds the waiter in neither queue, or edits the queue that it has left; a
//! wake of the second word goes to the wrong bucket, or is lost. Both buckets are locked from before the waiter leaves
//! the first until it is in the second. During all that time its entry names the first bucket ([E], [K]).

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use loom::thread;
use ufutex_loom::{Error, Requeue, Requeued, Scheme, WaitOptions, Waiter};

use crate::support::{PAIR, TRIO, World, catches, check, check_pair, hangs, resize, some_time};

/// Queues ahead of the second waiter, whichever comes first.
const FIRST: WaitOptions = WaitOptions::new().realtime_priority(1);

const NOBODY: (usize, usize) = (0, 0);

fn wake_both(world: &World) -> (usize, usize) {
    (world.domain.wake(&world.word, 9), world.domain.wake(&world.other, 9))
}

/// The waiter gives up while it is requeued. It is woken if and only if a later wake of the second word counts it.
fn against_timeout(scheme: Scheme, wakes: usize) {
    let world = World::with_slots_of(scheme, 2);
    let waiter = {
        let world = world.clone();
        thread::spawn(move || world.domain.wait_with(&world.word, 0, &some_time()))
    };
    let moved = world
        .domain
        .cmp_requeue(&world.word, 0, &world.other, Requeue { wake: 0, requeue: 1 })
        .expect("the word holds 0");
    let woken = world.domain.wake(&world.other, wakes);
    let result = waiter.join().unwrap();
    assert!(woken <= moved.requeued && moved.woken == 0);
    assert_eq!(result, if woken == 1 { Ok(()) } else { Err(Error::TimedOut) });
    assert_eq!(wake_both(&world), NOBODY);
}

/// Two waiters, one of which may time out. Either one is woken and one is requeued, or the only one left is woken.
fn wake_one_move_one() {
    let world = World::with_slots(2);
    let mut waiter = pin!(Waiter::new());
    let mut second = world.queue(waiter.as_mut()).expect("the word holds 0");
    let first = {
        let world = world.clone();
        thread::spawn(move || {
            let options = some_time().realtime_priority(1);
            world.domain.wait_with(&world.word, 0, &options)
        })
    };
    let done = world
        .domain
        .cmp_requeue(&world.word, 0, &world.other, Requeue { wake: 1, requeue: 1 })
        .expect("the word holds 0");
    let first_is_woken = first.join().unwrap().is_ok();
    assert_eq!(done, Requeued { woken: 1, requeued: usize::from(first_is_woken) });
    assert_ne!(first_is_woken, second.is_woken(), "one is woken");
    assert_eq!(wake_both(&world), (0, done.requeued));
    _ = second.cancel();
}

/// A future is polled and dropped while it is requeued, and another waits for the second word. One gets the wake.
fn against_drop(scheme: Scheme) {
    let world = World::with_slots_of(scheme, 2);
    let mut waiter = pin!(Waiter::new());
    let noop = || Waker::noop().clone();
    let second = world.domain.prepare_with(waiter.as_mut(), &world.other, 0, &WaitOptions::new(), noop());
    let mut second = second.expect("the word holds 0");
    let dropped = {
        let world = world.clone();
        thread::spawn(move || {
            let mut future = pin!(world.domain.wait_async(&world.word, 0, &FIRST));
            let mut poll = || future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            poll() == Poll::Ready(Ok(()))
        })
    };
    world.domain.requeue(&world.word, &world.other, Requeue { wake: 0, requeue: 1 }).expect("nobody waits for a lock");
    assert_eq!(world.domain.wake(&world.other, 1), 1, "the second waiter was there all the time");
    let is_reported = dropped.join().unwrap();
    assert_ne!(is_reported, second.is_woken(), "one wake, one waiter that hears of it");
    _ = second.cancel();
    assert_eq!(wake_both(&world), NOBODY);
}

/// The waiter is requeued while a resize moves both buckets.
fn against_resize(scheme: Scheme, start: usize, sizes: &'static [usize]) {
    let world = World::with_slots_of(scheme, start);
    let mut waiter = pin!(Waiter::new());
    let mut queued = world.queue(waiter.as_mut()).expect("the word holds 0");
    let mover = resize(&world, sizes);
    let moved = world.domain.cmp_requeue(&world.word, 0, &world.other, Requeue { wake: 0, requeue: 1 });
    assert_eq!(moved, Ok(Requeued { woken: 0, requeued: 1 }));
    assert_eq!(wake_both(&world), (0, 1));
    assert!(queued.is_woken());
    assert!(!queued.cancel());
    mover.join().unwrap();
}

/// As before, with the wake after the resize.
fn against_resize_then_wake(scheme: Scheme, start: usize, sizes: &'static [usize]) {
    let world = World::with_slots_of(scheme, start);
    let mut waiter = pin!(Waiter::new());
    let mut queued = world.queue(waiter.as_mut()).expect("the word holds 0");
    let mover = resize(&world, sizes);
    world.domain.requeue(&world.word, &world.other, Requeue { wake: 0, requeue: 1 }).expect("nobody waits for a lock");
    mover.join().unwrap();
    assert_eq!(wake_both(&world), (0, 1));
    assert!(!queued.cancel());
}

/// Two threads lock the same two buckets in opposite order, and each requeues the waiter to its own target.
fn against_requeue(start: usize, sizes: &'static [usize]) {
    let world = World::with_slots(start);
    let mut waiter = pin!(Waiter::new());
    let mut queued = world.queue(waiter.as_mut()).expect("the word holds 0");
    let mover = (!sizes.is_empty()).then(|| resize(&world, sizes));
    let back = {
        let world = world.clone();
        thread::spawn(move || world.domain.requeue(&world.other, &world.word, Requeue { wake: 0, requeue: 1 }))
    };
    let there = world
        .domain
        .requeue(&world.word, &world.other, Requeue { wake: 0, requeue: 1 })
        .expect("nobody waits for a lock");
    let back = back.join().unwrap().expect("nobody waits for a lock");
    if let Some(mover) = mover {
        mover.join().unwrap();
    }
    assert_eq!(there.requeued, 1);
    assert_eq!(wake_both(&world), (back.requeued, 1 - back.requeued));
    assert!(!queued.cancel());
}

fn timeout_while_moved() {
    against_timeout(Scheme::Live, 0);
}

fn drop_while_moved() {
    against_drop(Scheme::Live);
}

fn growth() {
    against_resize(Scheme::Live, 2, &[4]);
}

fn to_global_and_back() {
    against_resize_then_wake(Scheme::Live, 2, &[0, 2]);
}

fn return_and_growth() {
    against_resize_then_wake(Scheme::Live, 0, &[2, 4]);
}

fn from_global() {
    against_resize_then_wake(Scheme::Live, 0, &[2]);
}

#[test]
fn a_waiter_that_is_moved_times_out_or_is_woken() {
    check_pair(timeout_while_moved);
    check_pair(|| against_timeout(Scheme::Live, 1));
    check_pair(|| against_timeout(Scheme::Atomic, 1));
}

#[test]
fn a_requeue_counts_those_it_found() {
    check_pair(wake_one_move_one);
}

#[test]
fn a_future_that_is_moved_passes_its_wake_on() {
    check_pair(drop_while_moved);
    check_pair(|| against_drop(Scheme::PerCpu));
}

#[test]
fn a_waiter_is_moved_between_words_and_tables() {
    check_pair(growth);
    check_pair(|| against_resize(Scheme::Live, 4, &[2]));
}

#[test]
fn a_waiter_is_moved_between_words_to_the_global_table_and_back() {
    check(to_global_and_back);
}

#[test]
fn a_waiter_is_moved_between_words_from_the_global_table() {
    check(return_and_growth);
}

#[test]
fn a_waiter_is_moved_between_words_and_tables_by_the_other_schemes() {
    check_pair(|| against_resize_then_wake(Scheme::Atomic, 2, &[4]));
    check_pair(|| against_resize_then_wake(Scheme::PerCpu, 2, &[0]));
}

#[test]
fn two_requeues_the_other_way_round_both_end() {
    check_pair(|| against_requeue(2, &[]));
    check_pair(|| against_requeue(0, &[]));
}

#[test]
fn two_requeues_and_a_resize_all_end() {
    check(|| against_requeue(2, &[4]));
}

catches!(requeue_catches_timeout_loses_wake, TimeoutLosesWake, PAIR, || against_timeout(Scheme::Live, 1));
hangs!(requeue_timeout_hangs_with_requeue_shows_taken, RequeueShowsTaken, PAIR, timeout_while_moved);
catches!(requeue_catches_requeue_lets_go, RequeueLetsGo, PAIR, timeout_while_moved);
catches!(requeue_timeout_catches_cancel_skips_recheck, CancelSkipsRecheck, PAIR, timeout_while_moved);
catches!(requeue_drop_catches_cancel_skips_recheck, CancelSkipsRecheck, PAIR, drop_while_moved);
catches!(requeue_catches_drop_loses_wake, DropLosesWake, PAIR, drop_while_moved);
catches!(requeue_catches_source_stays_live, SourceStaysLive, PAIR, growth);
catches!(requeue_catches_second_skips_recheck, SecondSkipsRecheck, TRIO, from_global);
