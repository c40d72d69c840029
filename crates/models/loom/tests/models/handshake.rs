//! One waiter, one waker, one bucket: the core of a futex.
//!
//! The interleaving looked for: the waiter loads the old value of the word, and the waker, which has stored the new
//! one, finds the bucket empty. [A] and [B] exclude it: whichever barrier comes first, the other thread sees what was
//! stored before it. The waker must see the waiter's locked bit, so the emptiness check includes it.

use std::pin::pin;

use loom::thread;
use ufutex_loom::{Error, Scheme, Waiter};

use crate::support::{PAIR, World, assert_not_lost, catches, check_pair};

fn handshake(scheme: Scheme) {
    let world = World::with_slots_of(scheme, 2);
    let waker = {
        let world = world.clone();
        thread::spawn(move || world.store_and_wake())
    };
    let mut waiter = pin!(Waiter::new());
    let queued = world.queue(waiter.as_mut());
    assert_not_lost(queued, waker.join().unwrap());
}

/// As `handshake`, with a waiter that spins before it sleeps ([J]).
fn spinning_handshake() {
    let world = World::spinning();
    let waker = {
        let world = world.clone();
        thread::spawn(move || world.store_and_wake())
    };
    let result = world.domain.wait(&world.word, 0);
    match waker.join().unwrap() {
        0 => assert_eq!(result, Err(Error::Again)),
        woken => assert_eq!((result, woken), (Ok(()), 1)),
    }
}

#[test]
fn handshake_with_a_spin_holds() {
    check_pair(spinning_handshake);
}

catches!(handshake_catches_wake_looks_first, WakeLooksFirst, PAIR, spinning_handshake);
catches!(handshake_catches_spin_forgets_wake, SpinForgetsWake, PAIR, spinning_handshake);

#[test]
fn handshake_holds_for_fixed() {
    check_pair(|| handshake(Scheme::Fixed));
}

#[test]
fn handshake_holds_for_live() {
    check_pair(|| handshake(Scheme::Live));
}

#[test]
fn handshake_holds_for_atomic() {
    check_pair(|| handshake(Scheme::Atomic));
}

#[test]
fn handshake_holds_for_percpu() {
    check_pair(|| handshake(Scheme::PerCpu));
}

catches!(handshake_catches_unlock_relaxed, UnlockRelaxed, PAIR, || handshake(Scheme::Live));
catches!(handshake_catches_no_wait_barrier, NoWaitBarrier, PAIR, || handshake(Scheme::Live));
catches!(handshake_catches_no_wake_barrier, NoWakeBarrier, PAIR, || handshake(Scheme::Live));
catches!(handshake_catches_empty_ignores_lock, EmptyIgnoresLock, PAIR, || handshake(Scheme::Live));
