//! `live` to the global table and back. A global bucket is live whether the domain's keys are in it or not.
//!
//! The interleavings looked for: a waiter queues in a global bucket that its key has left; a waker's emptiness check
//! finds no waiter in a global bucket, and the key was, or is by then, in a private table. With the bucket locked an
//! operation checks again where the key is ([F]). Neither that nor an emptiness check counts if a move has begun
//! meanwhile ([G]). In a model waiters are moved one by one, with the global bucket unlocked in between, so the models
//! also look for an operation that sees only some of them.
//!
//! Promise: short holds

use std::pin::pin;

use loom::sync::Arc;
use loom::thread;
use ufutex_loom::Waiter;

use crate::support::{TRIO, World, assert_not_lost, catches, check, resize};

fn spawn_waker(world: &Arc<World>) -> thread::JoinHandle<usize> {
    let world = world.clone();
    thread::spawn(move || world.store_and_wake())
}

/// A waiter, a waker and a mover all at once.
fn move_between(start: usize, sizes: &'static [usize]) {
    let world = World::with_slots(start);
    let mover = resize(&world, sizes);
    let waker = spawn_waker(&world);
    let mut waiter = pin!(Waiter::new());
    let queued = world.queue(waiter.as_mut());
    let woken = waker.join().unwrap();
    mover.join().unwrap();
    assert_not_lost(queued, woken);
}

/// A waiter comes while the table changes. The waker comes afterwards.
fn late_waker(start: usize, sizes: &'static [usize]) {
    let world = World::with_slots(start);
    let mover = resize(&world, sizes);
    let mut waiter = pin!(Waiter::new());
    let queued = world.queue(waiter.as_mut());
    mover.join().unwrap();
    assert_not_lost(queued, world.store_and_wake());
}

/// A waiter is queued before. The waker comes while the table changes.
fn early_waiter(start: usize, sizes: &'static [usize]) {
    let world = World::with_slots(start);
    let mut waiter = pin!(Waiter::new());
    let queued = world.queue(waiter.as_mut());
    let waker = spawn_waker(&world);
    sizes.iter().for_each(|&slots| world.domain.set_slots(slots).expect("a table can be made"));
    assert_not_lost(queued, waker.join().unwrap());
}

/// Two waiters of the word are moved one by one. A wake of all must find both, in order.
fn wake_all_of_two(start: usize, sizes: &'static [usize]) {
    let world = World::with_slots(start);
    let mut waiters = [pin!(Waiter::new()), pin!(Waiter::new())];
    let queued = waiters.each_mut().map(|waiter| world.queue(waiter.as_mut()).expect("the word holds 0"));
    let mover = resize(&world, sizes);
    assert_eq!(world.domain.wake(&world.word, 9), 2, "a waiter was left behind");
    queued.into_iter().for_each(|mut queued| assert!(!queued.cancel()));
    mover.join().unwrap();
    assert_eq!(world.domain.wake(&world.word, 9), 0);
}

/// As before, with a wake of one: it must wake the first.
fn wake_first_of_two(start: usize, sizes: &'static [usize]) {
    let world = World::with_slots(start);
    let mut waiters = [pin!(Waiter::new()), pin!(Waiter::new())];
    let [mut first, mut second] =
        waiters.each_mut().map(|waiter| world.queue(waiter.as_mut()).expect("the word holds 0"));
    let mover = resize(&world, sizes);
    assert_eq!(world.domain.wake(&world.word, 1), 1);
    assert!(first.is_woken() && !second.is_woken(), "the second was woken before the first");
    mover.join().unwrap();
    assert_eq!(world.domain.wake(&world.word, 9), 1);
    assert!(!first.cancel() && !second.cancel());
}

/// One of two waiters gives up while they are moved, and a third comes. Wakes must find the remaining two, in order.
fn third_comes_as_first_leaves(start: usize, sizes: &'static [usize]) {
    let world = World::with_slots(start);
    let mut waiters = [pin!(Waiter::new()), pin!(Waiter::new()), pin!(Waiter::new())];
    let [first, second, third] = waiters.each_mut();
    let [mut first, mut second] = [first, second].map(|waiter| world.queue(waiter.as_mut()).expect("the word holds 0"));
    let mover = resize(&world, sizes);
    assert!(first.cancel(), "nobody woke it");
    let mut third = world.queue(third.as_mut()).expect("the word holds 0");
    mover.join().unwrap();
    assert_eq!(world.domain.wake(&world.word, 1), 1);
    assert!(second.is_woken() && !third.is_woken(), "the third was woken before the second");
    assert_eq!(world.domain.wake(&world.word, 9), 1);
    assert!(!second.cancel() && !third.cancel());
}

fn two_from_global() {
    wake_all_of_two(0, &[2]);
}

fn two_to_global() {
    wake_all_of_two(2, &[0]);
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
fn an_emptiness_check_is_not_deceived_by_a_key_that_left_and_returned() {
    check(early_waiter_away_and_back);
}

#[test]
fn an_emptiness_check_is_not_deceived_by_a_key_that_left() {
    check(early_waiter_from_global);
}

#[test]
fn a_wake_finds_all_whose_move_has_begun() {
    check(two_from_global);
    check(two_to_global);
    check(|| wake_all_of_two(2, &[0, 2]));
    check(|| wake_all_of_two(0, &[2, 0]));
}

#[test]
fn waiters_that_are_moved_one_by_one_keep_their_order() {
    check(|| wake_first_of_two(0, &[2]));
    check(|| wake_first_of_two(2, &[0]));
}

#[test]
fn waiters_come_and_leave_while_others_are_moved() {
    check(|| third_comes_as_first_leaves(0, &[2]));
    check(|| third_comes_as_first_leaves(2, &[0]));
}

catches!(global_catches_drains_before_flip, DrainsBeforeFlip, TRIO, from_global);
catches!(global_from_catches_mover_lets_go, MoverLetsGo, TRIO, two_from_global);
catches!(global_to_catches_mover_lets_go, MoverLetsGo, TRIO, two_to_global);
catches!(global_catches_moves_relaxed, MovesRelaxed, TRIO, from_global);
catches!(global_catches_no_wait_barrier, NoWaitBarrier, TRIO, from_global);
catches!(global_catches_no_wake_barrier, NoWakeBarrier, TRIO, to_global);
catches!(global_catches_global_skips_recheck, GlobalSkipsRecheck, TRIO, late_waker_after_global_and_growth);
catches!(global_catches_global_ignores_moves, GlobalIgnoresMoves, TRIO, late_waker_after_global_and_growth);
catches!(global_catches_empty_trusts_same_table, EmptyTrustsSameTable, TRIO, early_waiter_away_and_back);
catches!(global_catches_empty_skips_global_recheck, EmptySkipsGlobalRecheck, TRIO, early_waiter_from_global);
