//! The pivot of `atomic` and `percpu` waits until no operation is between look-up and unlock.
//!
//! The interleaving looked for: an operation has looked up the old table, and reaches its bucket after the waiters have
//! left it. The count prevents the pivot from starting before such an operation has finished ([H]). `percpu` must also
//! ensure that no restartable sequence adds to a counter that has already been summed ([I]).

use std::pin::pin;

use loom::thread;
use ufutex_loom::Waiter;
use ufutex_loom::scheme::{Atomic, PerCpu, Scheme};

use crate::support::{World, assert_not_lost, catches, check, resize};

fn pivot<S: Scheme>(sizes: &'static [usize]) {
    let world = World::<S>::with_slots(2);
    let mover = resize(&world, sizes);
    let waker = {
        let world = world.clone();
        thread::spawn(move || world.store_and_wake())
    };
    let mut waiter = pin!(Waiter::new());
    let queued = world.queue(waiter.as_mut());
    let woken = waker.join().unwrap();
    mover.join().unwrap();
    assert_not_lost(queued, woken);
}

fn pivot_with_a_waiter<S: Scheme>() {
    let world = World::<S>::with_slots(2);
    let mut waiter = pin!(Waiter::new());
    let queued = world.queue(waiter.as_mut());
    let mover = resize(&world, &[4]);
    let woken = world.store_and_wake();
    mover.join().unwrap();
    assert_not_lost(queued, woken);
}

fn grow<S: Scheme>() {
    pivot::<S>(&[4]);
}

fn to_the_global_table<S: Scheme>() {
    pivot::<S>(&[0]);
}

#[test]
fn atomic_growth_loses_no_wake() {
    check(grow::<Atomic>);
}

#[test]
fn percpu_growth_loses_no_wake() {
    check(grow::<PerCpu>);
}

#[test]
fn atomic_loses_no_wake_to_the_global_table() {
    check(to_the_global_table::<Atomic>);
}

#[test]
fn percpu_loses_no_wake_to_the_global_table() {
    check(to_the_global_table::<PerCpu>);
}

#[test]
fn counted_pivots_find_the_waiter() {
    check(pivot_with_a_waiter::<Atomic>);
    check(pivot_with_a_waiter::<PerCpu>);
}

catches!(pivot_counted_catches_pivot_skips_count, PivotSkipsCount, pivot_with_a_waiter::<Atomic>);
catches!(pivot_counted_catches_pivot_skips_sections, PivotSkipsSections, pivot_with_a_waiter::<PerCpu>);
