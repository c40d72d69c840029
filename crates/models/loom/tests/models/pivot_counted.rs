//! The pivot of `atomic` and `percpu` waits until no operation is between look-up and unlock.
//!
//! The interleaving looked for: an operation has looked up the old table, and reaches its bucket after the waiters have
//! left it. The count prevents the pivot from starting before such an operation has finished ([H]). `percpu` must also
//! ensure that no restartable sequence adds to a counter that has already been summed ([I]).

use std::pin::pin;

use loom::thread;
use ufutex_loom::{At, Compare, Modify, ObjectId, Scheme, Waiter, WakeOp};

use crate::support::{TRIO, World, assert_not_lost, catches, check, check_pair, resize};

fn pivot(scheme: Scheme, sizes: &'static [usize]) {
    let world = World::with_slots_of(scheme, 2);
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

fn pivot_with_a_waiter(scheme: Scheme) {
    let world = World::with_slots_of(scheme, 2);
    let mut waiter = pin!(Waiter::new());
    let queued = world.queue(waiter.as_mut());
    let mover = resize(&world, &[4]);
    let woken = world.store_and_wake();
    mover.join().unwrap();
    assert_not_lost(queued, woken);
}

/// An operation on a word in a global bucket and one in the table counts itself for the second bucket only. If it does not,
/// or counts itself wrongly, it may use a table whose waiters have left, or the next pivot finds no moment without operations.
fn pivot_beside_a_pair(scheme: Scheme) {
    let world = World::with_slots_of(scheme, 2);
    let mut waiter = pin!(Waiter::new());
    let mut queued = world.queue(waiter.as_mut()).expect("the word holds 0");
    let mover = resize(&world, &[4]);
    let shared = At::object(&world.other, ObjectId::new(1).expect("small enough"), 0);
    let op = WakeOp { modify: Modify::Set(1), compare: Compare::Eq(0) };
    assert_eq!(world.domain.wake_op(shared, 1, &world.word, op, 1), Ok(1));
    mover.join().unwrap();
    assert!(!queued.cancel(), "the wake took it from the queue");
    let mut tries = 0;
    let again = world.domain.set_slots_while(8, || {
        tries += 1;
        tries < 9
    });
    assert_eq!(again, Ok(()));
}

fn grow(scheme: Scheme) {
    pivot(scheme, &[4]);
}

fn to_the_global_table(scheme: Scheme) {
    pivot(scheme, &[0]);
}

#[test]
fn atomic_growth_loses_no_wake() {
    check(|| grow(Scheme::Atomic));
}

#[test]
fn percpu_growth_loses_no_wake() {
    check(|| grow(Scheme::PerCpu));
}

#[test]
fn atomic_loses_no_wake_to_the_global_table() {
    check(|| to_the_global_table(Scheme::Atomic));
}

#[test]
fn percpu_loses_no_wake_to_the_global_table() {
    check(|| to_the_global_table(Scheme::PerCpu));
}

#[test]
fn counted_pivots_find_the_waiter() {
    check(|| pivot_with_a_waiter(Scheme::Atomic));
    check(|| pivot_with_a_waiter(Scheme::PerCpu));
}

#[test]
fn counted_pivots_hold_beside_a_pair() {
    check_pair(|| pivot_beside_a_pair(Scheme::Atomic));
    check_pair(|| pivot_beside_a_pair(Scheme::PerCpu));
}

catches!(pivot_counted_catches_pivot_skips_count, PivotSkipsCount, TRIO, || pivot_with_a_waiter(Scheme::Atomic));
catches!(pivot_counted_catches_pivot_skips_sections, PivotSkipsSections, TRIO, || pivot_with_a_waiter(Scheme::PerCpu));
