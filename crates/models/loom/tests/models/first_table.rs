//! The first wait makes the first table while a waker checks for waiters.
//!
//! The interleaving looked for: the waker finds no table, and so no waiter, although one has queued in the table that
//! was being made. The table is published ([F]) before its first waiter reads the word. So [A] and [B] exclude this:
//! either the waker sees the table, or the waiter sees the new value.

use std::pin::pin;

use loom::sync::Arc;
use loom::thread;
use ufutex_loom::Waiter;
use ufutex_loom::layout::Lean;
use ufutex_loom::scheme::{Atomic, Fixed, Live, PerCpu, Scheme};

use crate::support::{World, assert_not_lost, catches, check_pair};

fn first_table<S: Scheme<Lean>>() {
    let world = Arc::new(World::<S>::new());
    let waker = {
        let world = world.clone();
        thread::spawn(move || world.store_and_wake())
    };
    let mut waiter = pin!(Waiter::new());
    let queued = world.queue(waiter.as_mut());
    assert_not_lost(queued, waker.join().unwrap());
}

/// Two threads make the first table at once. Both must use the same one.
fn two_first_waiters() {
    let world = Arc::new(World::<Live>::new());
    let other = {
        let world = world.clone();
        thread::spawn(move || {
            let mut waiter = pin!(Waiter::new());
            let queued = world.queue(waiter.as_mut()).expect("the word holds 0");
            queued.cancel()
        })
    };
    let mut waiter = pin!(Waiter::new());
    let queued = world.queue(waiter.as_mut()).expect("the word holds 0");
    assert!(other.join().unwrap(), "nobody woke the other");
    assert_eq!(world.domain.wake(&world.word, usize::MAX), 1);
    assert!(queued.is_woken());
}

#[test]
fn first_table_holds_for_every_scheme() {
    check_pair(first_table::<Fixed>);
    check_pair(first_table::<Live>);
    check_pair(first_table::<Atomic>);
    check_pair(first_table::<PerCpu>);
}

#[test]
fn two_first_waiters_share_one_table() {
    check_pair(two_first_waiters);
}

catches!(first_table_catches_publish_relaxed, PublishRelaxed, first_table::<Live>);
catches!(first_table_catches_no_wait_barrier, NoWaitBarrier, first_table::<Live>);
catches!(first_table_catches_no_wake_barrier, NoWakeBarrier, first_table::<Live>);
