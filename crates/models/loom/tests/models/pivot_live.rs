//! The pivot of `live`: one key, two tables, and a waiter and a waker that may have a stale pointer to either.
//!
//! The interleavings looked for: the waker's emptiness check finds no waiter in a bucket that its key has left or has
//! not reached yet; the waiter queues in a bucket that no waker will look at. They are excluded by two invariants:
//! exactly one bucket of a key is live, and the mover holds the source's lock from before the target is live until the
//! source is not ([E], [F]). See "The emptiness check with a stale table" in ORDERING.md.

use std::pin::pin;

use loom::sync::Arc;
use loom::thread;
use ufutex_loom::Waiter;

use crate::support::{TRIO, World, assert_not_lost, catches, check, resize};

/// A waiter, a waker and a mover all at once.
fn pivot(start: usize, sizes: &'static [usize]) {
    let world = World::with_slots(start);
    let mover = resize(&world, sizes);
    let waker = spawn_waker(&world);
    let mut waiter = pin!(Waiter::new());
    let queued = world.queue(waiter.as_mut());
    let woken = waker.join().unwrap();
    mover.join().unwrap();
    assert_not_lost(queued, woken);
}

/// The waiter is queued before. The waker must find it in whichever table it is then.
fn pivot_with_a_waiter(start: usize, sizes: &'static [usize]) {
    let world = World::with_slots(start);
    let mut waiter = pin!(Waiter::new());
    let queued = world.queue(waiter.as_mut());
    let waker = spawn_waker(&world);
    let mover = resize(&world, sizes);
    mover.join().unwrap();
    assert_not_lost(queued, waker.join().unwrap());
}

fn spawn_waker(world: &Arc<World>) -> thread::JoinHandle<usize> {
    let world = world.clone();
    thread::spawn(move || world.store_and_wake())
}

fn grow() {
    pivot(2, &[4]);
}

fn shrink() {
    pivot(4, &[2]);
}

fn grow_and_shrink() {
    pivot(2, &[4, 2]);
}

fn shrink_and_regrow_with_a_waiter() {
    pivot_with_a_waiter(4, &[2, 4]);
}

#[test]
fn growth_loses_no_wake() {
    check(grow);
}

#[test]
fn shrinking_loses_no_wake() {
    check(shrink);
}

#[test]
fn growing_and_shrinking_loses_no_wake() {
    check(grow_and_shrink);
}

#[test]
fn shrinking_and_regrowing_finds_the_waiter() {
    check(shrink_and_regrow_with_a_waiter);
}

catches!(pivot_live_catches_no_wait_barrier, NoWaitBarrier, TRIO, grow);
catches!(pivot_live_catches_no_wake_barrier, NoWakeBarrier, TRIO, grow);
catches!(pivot_live_catches_empty_ignores_live, EmptyIgnoresLive, TRIO, grow);
catches!(pivot_live_catches_empty_ignores_lock, EmptyIgnoresLock, TRIO, grow);
catches!(pivot_live_catches_source_stays_live, SourceStaysLive, TRIO, grow);
catches!(pivot_live_catches_target_live_early, TargetLiveEarly, TRIO, shrink_and_regrow_with_a_waiter);
