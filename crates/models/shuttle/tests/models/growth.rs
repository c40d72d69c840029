//! A table grows by policy while sixteen threads wait, each on a word of its own, four words in a cache line.
//!
//! No thread makes the whole move: each takes some steps, passing over locked buckets. Then one wake finds each waiter.

use shuttle::thread;

use crate::support::{Word, World, catches, check};

const WAITERS: u64 = 16;

fn address(waiter: u64) -> u64 {
    0x1000 + waiter / 4 * 64 + waiter % 4 * 4
}

fn crowd() {
    let world = World::new();
    let waiters: Vec<_> = (0..WAITERS)
        .map(|waiter| {
            let world = world.clone();
            thread::spawn(move || world.domain.wait(&Word::at(address(waiter)), 0).expect("the word holds 0"))
        })
        .collect();
    for waiter in 0..WAITERS {
        // A wake uses only the address. The word itself is the waiter's.
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

catches!(growth_catches_skipped_step_is_forgotten, SkippedStepIsForgotten, 400, crowd);
