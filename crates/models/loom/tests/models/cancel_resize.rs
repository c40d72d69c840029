//! A waiter that gives up while a resize moves it.
//!
//! The interleaving looked for: the waiter reads which bucket it is queued in, is moved, and then edits the queue of
//! the old bucket. In a private table the old bucket is no longer live and cannot be locked. A global bucket can be
//! locked, so with the lock held the waiter checks again where it is queued ([K]).

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};

use ufutex_loom::{Scheme, WaitOptions, Waiter};

use crate::support::{PAIR, World, catches, check_pair, resize};

fn cancel_during(scheme: Scheme, start: usize, sizes: &'static [usize]) {
    let world = World::with_slots_of(scheme, start);
    let mut waiter = pin!(Waiter::new());
    let mut queued = world.queue(waiter.as_mut()).expect("the word holds 0");
    let mover = resize(&world, sizes);
    assert!(queued.cancel(), "nobody woke it");
    mover.join().unwrap();
    assert_eq!(world.domain.wake(&world.word, 1), 0);
}

/// A future is dropped while its bucket is moved. The next waiter of the key must stay queued.
fn drop_during(start: usize, sizes: &'static [usize]) {
    let world = World::with_slots(start);
    let mut waiter = pin!(Waiter::new());
    let next = world.queue(waiter.as_mut()).expect("the word holds 0");
    let mut future = Box::pin(world.domain.wait_async(&world.word, 0, &WaitOptions::new()));
    assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let mover = resize(&world, sizes);
    drop(future);
    mover.join().unwrap();
    assert_eq!(world.domain.wake(&world.word, 2), 1);
    assert!(next.is_woken());
}

fn cancel_from_global() {
    cancel_during(Scheme::Live, 0, &[2]);
}

#[test]
fn a_cancelled_waiter_finds_its_bucket() {
    check_pair(|| cancel_during(Scheme::Live, 2, &[4, 2]));
    check_pair(|| cancel_during(Scheme::Live, 4, &[2, 4]));
    check_pair(|| cancel_during(Scheme::Atomic, 2, &[4]));
    check_pair(|| cancel_during(Scheme::PerCpu, 2, &[4]));
}

#[test]
fn a_cancelled_waiter_finds_its_bucket_in_or_out_of_the_global_table() {
    check_pair(cancel_from_global);
    check_pair(|| cancel_during(Scheme::Live, 2, &[0, 2]));
    check_pair(|| cancel_during(Scheme::Atomic, 0, &[2]));
}

#[test]
fn a_dropped_future_finds_its_bucket() {
    check_pair(|| drop_during(2, &[4]));
    check_pair(|| drop_during(4, &[2]));
    check_pair(|| drop_during(0, &[2]));
}

catches!(cancel_resize_catches_cancel_skips_recheck, CancelSkipsRecheck, PAIR, cancel_from_global);
