//! A table that grows by policy while sixteen threads wait, each on a word of its own, four words to a line.
//!
//! No thread moves it all: each helps for a few steps, and passes over buckets that are locked. Afterwards each waiter
//! is found by one wake.

use shuttle::thread;
use ufutex_shuttle::scheme::Live;

use crate::support::{Word, World, catches, check};

const WAITERS: u64 = 16;

fn address(waiter: u64) -> u64 {
    0x1000 + waiter / 4 * 64 + waiter % 4 * 4
}

fn crowd() {
    let world = World::<Live>::new();
    let waiters: Vec<_> = (0..WAITERS)
        .map(|waiter| {
            let world = world.clone();
            thread::spawn(move || world.domain.wait(&Word::at(address(waiter)), 0).expect("the word holds 0"))
        })
        .collect();
    for waiter in 0..WAITERS {
        // A wake goes by the address: the word is the waiter's.
        while world.domain.wake(&Word::at(address(waiter)), 1) == 0 {
            thread::yield_now();
        }
    }
    waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
    assert!((0..WAITERS).all(|waiter| world.domain.wake(&Word::at(address(waiter)), 1) == 0));
}

#[test]
fn growing_under_a_crowd_leaves_nobody_behind() {
    check(400, crowd);
}

catches!(growth_catches_skipped_step_is_forgotten, SkippedStepIsForgotten, 4000, crowd);
