//! The first wait makes the first table while a waker checks for waiters.
//!
//! The interleaving looked for: the waker finds no table, and so no waiter, although one has queued in the table that
//! was being made. The table is published ([F]) before its first waiter reads the word. So [A] and [B] exclude this:
//! either the waker sees the table, or the waiter sees the new value. The same holds for the system's table, which the
//! first waiter of any domain makes ([W]).

use std::pin::pin;
use std::task::Waker;

use loom::sync::Arc;
use loom::thread;
use ufutex_loom::{At, ObjectId, Scheme, WaitOptions, Waiter};

use crate::support::{PAIR, Word, World, assert_not_lost, catches, check_pair};

fn first_table(scheme: Scheme) {
    let world = Arc::new(World::of(scheme));
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
    let world = Arc::new(World::new());
    let other = {
        let world = world.clone();
        thread::spawn(move || {
            let mut waiter = pin!(Waiter::new());
            let mut queued = world.queue(waiter.as_mut()).expect("the word holds 0");
            queued.cancel()
        })
    };
    let mut waiter = pin!(Waiter::new());
    let queued = world.queue(waiter.as_mut()).expect("the word holds 0");
    assert!(other.join().unwrap(), "nobody woke the other");
    assert_eq!(world.domain.wake(&world.word, usize::MAX), 1);
    assert!(queued.is_woken());
}

fn shared(word: &Word) -> At<&Word> {
    At::object(word, ObjectId::new(1).expect("small enough"), 0)
}

/// A word of a shared object, whose waiters are in the system's table, which the first of them makes.
fn first_global() {
    let world = Arc::new(World::new());
    let waker = {
        let world = world.clone();
        thread::spawn(move || {
            world.word.store(1);
            world.domain.wake(shared(&world.word), 1)
        })
    };
    let mut waiter = pin!(Waiter::new());
    let options = WaitOptions::new();
    let queued = world.domain.prepare_with(waiter.as_mut(), shared(&world.word), 0, &options, Waker::noop().clone());
    assert_not_lost(queued, waker.join().unwrap());
}

#[test]
fn first_global_table_holds() {
    check_pair(first_global);
}

#[test]
fn first_table_holds_for_every_scheme() {
    check_pair(|| first_table(Scheme::Fixed));
    check_pair(|| first_table(Scheme::Live));
    check_pair(|| first_table(Scheme::Atomic));
    check_pair(|| first_table(Scheme::PerCpu));
}

#[test]
fn two_first_waiters_share_one_table() {
    check_pair(two_first_waiters);
}

catches!(first_table_catches_publish_relaxed, PublishRelaxed, PAIR, || first_table(Scheme::Live));
catches!(first_table_catches_no_wait_barrier, NoWaitBarrier, PAIR, || first_table(Scheme::Live));
catches!(first_table_catches_no_wake_barrier, NoWakeBarrier, PAIR, || first_table(Scheme::Live));
catches!(first_global_catches_lazy_relaxed, LazyRelaxed, PAIR, first_global);
catches!(first_global_catches_no_wait_barrier, NoWaitBarrier, PAIR, first_global);
catches!(first_global_catches_no_wake_barrier, NoWakeBarrier, PAIR, first_global);
