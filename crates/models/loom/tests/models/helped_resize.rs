//! A resize in which several threads take steps: one begins it, others help, and two request different sizes at once.
//!
//! The interleavings looked for: a step is taken twice, or by no thread because each leaves it to the other; the table
//! is published before its last bucket is moved. Only the holder of the resize lock takes steps ([E]). A bucket that
//! was found locked is passed over only until the next pass.

use std::iter;
use std::pin::pin;
use std::task::Waker;

use loom::sync::Arc;
use loom::thread;
use ufutex_loom::{Queued, Scheme, WaitOptions, Waiter};

use crate::support::{TRIO, Word, World, assert_not_lost, check, hangs, resize};

/// Two threads resize to different sizes, with a waiter in the queue.
fn two_movers(scheme: Scheme) {
    let world = World::with_slots_of(scheme, 2);
    let mut waiter = pin!(Waiter::new());
    let queued = world.queue(waiter.as_mut());
    let movers = [resize(&world, &[4]), resize(&world, &[8])];
    let woken = world.store_and_wake();
    movers.into_iter().for_each(|mover| mover.join().unwrap());
    assert_not_lost(queued, woken);
    assert!([4, 8].contains(&world.domain.slots()));
}

/// Three words of `World::word`'s cache line, so in its bucket.
fn neighbours() -> [Word; 3] {
    [4, 8, 12].map(|offset| Word::at(0x1000 + offset))
}

/// Runs `f` with a waiter on each of three words. A fourth makes the chain of keys long enough to grow the table.
fn with_three_waiters(world: &World, f: impl FnOnce()) {
    let words = neighbours();
    let mut waiters = [(); 3].map(|()| Box::pin(Waiter::new()));
    let queued: Vec<Queued<'_, '_>> = iter::zip(&words, &mut waiters)
        .map(|(word, waiter)| {
            let noop = Waker::noop().clone();
            world.domain.prepare_with(waiter.as_mut(), word, 0, &WaitOptions::new(), noop).expect("the word holds 0")
        })
        .collect();
    f();
    for (word, queued) in iter::zip(&words, queued) {
        assert_eq!(world.domain.wake(word, 1), 1, "a waiter was left behind");
        assert!(queued.is_woken());
    }
}

/// The fourth waiter begins to grow the table, and passes over the bucket that the waker has locked. Others continue.
fn growth_by_policy() {
    let world = Arc::new(World::new());
    with_three_waiters(&world, || {
        let waker = {
            let world = world.clone();
            thread::spawn(move || world.store_and_wake())
        };
        let mut waiter = pin!(Waiter::new());
        let fourth = world.queue(waiter.as_mut());
        assert_not_lost(fourth, waker.join().unwrap());
    });
}

/// The policy wants to grow a table while the embedder replaces it by the global one.
fn growth_against_the_global_table() {
    let world = Arc::new(World::new());
    with_three_waiters(&world, || {
        let mover = resize(&world, &[0]);
        let mut waiter = pin!(Waiter::new());
        assert!(world.queue(waiter.as_mut()).expect("the word holds 0").cancel());
        mover.join().unwrap();
        assert_eq!(world.domain.slots(), 0, "what was asked for last holds");
    });
}

#[test]
fn two_movers_agree() {
    check(|| two_movers(Scheme::Live));
    check(|| two_movers(Scheme::Atomic));
}

#[test]
fn growth_by_policy_does_not_leave_the_global_table() {
    check(growth_against_the_global_table);
}

#[test]
fn growth_by_policy_leaves_nobody_behind() {
    check(growth_by_policy);
}

// A step whose source stays live is never finished, so the resize does not end.
hangs!(helped_resize_catches_source_stays_live, SourceStaysLive, TRIO, || two_movers(Scheme::Live));
hangs!(helped_resize_catches_skipped_step_is_forgotten, SkippedStepIsForgotten, TRIO, growth_by_policy);
