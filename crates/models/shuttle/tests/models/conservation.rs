//! Each wake is counted twice: by the waker, and by the waiter that it woke. The sums must be equal: no wake is lost in
//! between, and none is received twice.

use std::pin::pin;
use std::task::Waker;

use shuttle::sync::Arc;
use shuttle::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use shuttle::thread;
use ufutex_shuttle::{Scheme, WaitOptions, Waiter};

use crate::support::{World, catches, check, some_time};

const WAITERS: usize = 6;
const WAKERS: usize = 2;
const ROUNDS: usize = 3;

/// Waits in one of three ways. Returns whether a wake was received.
fn wait(world: &World, way: usize) -> bool {
    let word = &world.words[way % 2];
    match way % 3 {
        0 => {
            world.domain.wait(word, 0).expect("the word holds 0");
            true
        }
        1 => world.domain.wait_with(word, 0, &some_time()).is_ok(),
        _ => {
            let mut waiter = pin!(Waiter::new());
            let noop = Waker::noop().clone();
            let queued = world.domain.prepare_with(waiter.as_mut(), word, 0, &WaitOptions::new(), noop);
            thread::yield_now();
            !queued.expect("the word holds 0").cancel()
        }
    }
}

fn conservation(scheme: Scheme, sizes: &'static [usize]) {
    let world = World::of(scheme);
    let waiters_left = Arc::new(AtomicUsize::new(WAITERS));
    let waiters: Vec<_> = (0..WAITERS)
        .map(|waiter| {
            let (world, waiters_left) = (world.clone(), waiters_left.clone());
            thread::spawn(move || {
                let received = (0..ROUNDS).filter(|round| wait(&world, waiter + round)).count();
                waiters_left.fetch_sub(1, SeqCst);
                received
            })
        })
        .collect();
    let wakers: Vec<_> = (0..WAKERS)
        .map(|waker| {
            let (world, waiters_left) = (world.clone(), waiters_left.clone());
            thread::spawn(move || {
                let mut woken = 0;
                while waiters_left.load(SeqCst) != 0 {
                    woken += world.words.iter().map(|word| world.domain.wake(word, 1 + waker)).sum::<usize>();
                    thread::yield_now();
                }
                woken
            })
        })
        .collect();
    world.resize(sizes);
    let received: usize = waiters.into_iter().map(|waiter| waiter.join().unwrap()).sum();
    let woken: usize = wakers.into_iter().map(|waker| waker.join().unwrap()).sum();
    assert_eq!(received, woken);
    assert!(world.words.iter().all(|word| world.domain.wake(word, usize::MAX) == 0), "nobody is left");
}

fn live() {
    conservation(Scheme::Live, &[4, 2, 0, 8]);
}

fn from_the_global_table() {
    conservation(Scheme::Live, &[0, 2, 0, 4]);
}

#[test]
fn wakes_sent_are_wakes_received_by_live() {
    check(600, live);
    check(600, from_the_global_table);
}

#[test]
fn wakes_sent_are_wakes_received_by_the_other_schemes() {
    check(300, || conservation(Scheme::Atomic, &[4, 2, 0]));
    check(300, || conservation(Scheme::PerCpu, &[4, 2, 0]));
}

catches!(conservation_catches_timeout_loses_wake, TimeoutLosesWake, 600, live);
catches!(conservation_catches_cancel_skips_recheck, CancelSkipsRecheck, 600, from_the_global_table);
catches!(conservation_catches_drop_skips_handover, DropSkipsHandover, 600, live);
