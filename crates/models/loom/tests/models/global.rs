//! `live` to the global table and back, where a bucket is live whether the domain's keys are in it or not.
//!
//! The interleavings looked for: a waiter queues in a global bucket that its key has left; a waker glances at one, finds
//! nobody, and the key was, or is by then, in a private table. Under the lock an operation asks once more where the key
//! is ([F]), and neither that answer nor a glance counts if a move has begun meanwhile ([G]).

use std::pin::pin;

use loom::sync::Arc;
use loom::thread;
use ufutex_loom::Waiter;
use ufutex_loom::scheme::Live;

use crate::support::{World, assert_not_lost, catches, check, resize};

fn spawn_waker(world: &Arc<World<Live>>) -> thread::JoinHandle<usize> {
    let world = world.clone();
    thread::spawn(move || world.store_and_wake())
}

/// Waiter, waker and mover all at once.
fn move_between(start: usize, sizes: &'static [usize]) {
    let world = World::<Live>::with_slots(start);
    let mover = resize(&world, sizes);
    let waker = spawn_waker(&world);
    let mut waiter = pin!(Waiter::new());
    let queued = world.queue(waiter.as_mut());
    let woken = waker.join().unwrap();
    mover.join().unwrap();
    assert_not_lost(queued, woken);
}

/// A waiter that comes while the table changes; the waker comes when all is quiet.
fn late_waker(start: usize, sizes: &'static [usize]) {
    let world = World::<Live>::with_slots(start);
    let mover = resize(&world, sizes);
    let mut waiter = pin!(Waiter::new());
    let queued = world.queue(waiter.as_mut());
    mover.join().unwrap();
    assert_not_lost(queued, world.store_and_wake());
}

/// A waiter that has queued before; the waker comes while the table changes.
fn early_waiter(start: usize, sizes: &'static [usize]) {
    let world = World::<Live>::with_slots(start);
    let mut waiter = pin!(Waiter::new());
    let queued = world.queue(waiter.as_mut());
    let waker = spawn_waker(&world);
    sizes.iter().for_each(|&slots| world.domain.set_slots(slots).expect("a table can be made"));
    assert_not_lost(queued, waker.join().unwrap());
}

fn to_global() {
    move_between(2, &[0]);
}

fn from_global() {
    move_between(0, &[2]);
}

fn late_waker_after_global_and_growth() {
    late_waker(0, &[2, 4]);
}

fn late_waker_after_there_and_back() {
    late_waker(2, &[0, 2]);
}

fn early_waiter_away_and_back() {
    early_waiter(0, &[2, 0]);
}

fn early_waiter_from_global() {
    early_waiter(0, &[2]);
}

#[test]
fn going_to_the_global_table_loses_no_wake() {
    check(to_global);
}

#[test]
fn returning_from_the_global_table_loses_no_wake() {
    check(from_global);
}

#[test]
fn a_waiter_queues_where_its_key_is_after_return_and_growth() {
    check(late_waker_after_global_and_growth);
}

#[test]
fn a_waiter_queues_where_its_key_is_after_going_and_returning() {
    check(late_waker_after_there_and_back);
}

#[test]
fn a_glance_is_not_deceived_by_a_key_that_left_and_returned() {
    check(early_waiter_away_and_back);
}

#[test]
fn a_glance_is_not_deceived_by_a_key_that_left() {
    check(early_waiter_from_global);
}

catches!(global_catches_moves_relaxed, MovesRelaxed, from_global);
catches!(global_catches_no_wait_barrier, NoWaitBarrier, from_global);
catches!(global_catches_no_wake_barrier, NoWakeBarrier, to_global);
catches!(global_catches_global_skips_recheck, GlobalSkipsRecheck, late_waker_after_global_and_growth);
catches!(global_catches_global_ignores_moves, GlobalIgnoresMoves, late_waker_after_global_and_growth);
catches!(global_catches_empty_trusts_same_table, EmptyTrustsSameTable, early_waiter_away_and_back);
catches!(global_catches_empty_skips_global_recheck, EmptySkipsGlobalRecheck, early_waiter_from_global);
