//! A timeout against a wake: the wait ends in one way, and the waker's count agrees.
//!
//! The interleavings looked for: the waiter returns "timed out" after a waker has counted it, so that the wake is lost;
//! or it leaves its stack frame while the waker, which has taken the entry, still has to signal there. A waiter whose
//! entry is no longer queued waits for the signal ([J]), and was woken then.

use loom::thread;
use ufutex_loom::{Error, Scheme};

use crate::support::{PAIR, World, catches, check, check_pair, resize, some_time};

fn timeout_against_wake(scheme: Scheme) {
    let world = World::with_slots_of(scheme, 2);
    let waker = {
        let world = world.clone();
        thread::spawn(move || world.domain.wake(&world.word, 1))
    };
    let result = world.domain.wait_with(&world.word, 0, &some_time());
    match waker.join().unwrap() {
        0 => assert_eq!(result, Err(Error::TimedOut)),
        woken => assert_eq!((result, woken), (Ok(()), 1)),
    }
}

fn timeout_against_wake_and_resize() {
    let world = World::with_slots(2);
    let mover = resize(&world, &[4]);
    let waker = {
        let world = world.clone();
        thread::spawn(move || world.domain.wake(&world.word, 1))
    };
    let result = world.domain.wait_with(&world.word, 0, &some_time());
    let woken = waker.join().unwrap();
    mover.join().unwrap();
    match woken {
        0 => assert_eq!(result, Err(Error::TimedOut)),
        woken => assert_eq!((result, woken), (Ok(()), 1)),
    }
}

#[test]
fn a_wait_is_timed_out_or_woken() {
    check_pair(|| timeout_against_wake(Scheme::Live));
    check_pair(|| timeout_against_wake(Scheme::Atomic));
}

#[test]
fn a_wait_is_timed_out_or_woken_during_a_resize() {
    check(timeout_against_wake_and_resize);
}

catches!(timeout_catches_timeout_loses_wake, TimeoutLosesWake, PAIR, || timeout_against_wake(Scheme::Live));
catches!(timeout_catches_drop_skips_handover, DropSkipsHandover, PAIR, || timeout_against_wake(Scheme::Live));
