//! The lock under contention: one at a time, and no sleeper is forgotten.
//!
//! The interleaving looked for: the holder stores "unlocked" and then finds no contender; a contender says that it is
//! there and then finds the lock held. One of the two sees the other's store, by [C] and [D]. An unlock wakes all that
//! sleep; one that only goes to sleep then finds `contended` down again, unless a third has raised it meanwhile. That
//! one unlocks in its turn, or, where the bucket is not live any more, takes it down and wakes again.

use std::pin::pin;

use loom::sync::Arc;
use loom::thread;
use ufutex_loom::model::Lock;
use ufutex_loom::scheme::Live;
use ufutex_loom::{Access, Error, Fault, Target, Waiter};

use crate::support::{Word, World, catches, check, check_pair};

fn contenders(threads: usize, rounds: usize) {
    let counter = Arc::new(Lock::new(0));
    let add = move |counter: &Lock<usize>| (0..rounds).for_each(|_| counter.lock().with(|count| *count += 1));
    let others: Vec<_> = (1..threads)
        .map(|_| {
            let counter = counter.clone();
            thread::spawn(move || add(&counter))
        })
        .collect();
    add(&counter);
    others.into_iter().for_each(|other| other.join().unwrap());
    assert_eq!(counter.lock().with(|count| *count), threads * rounds);
}

fn two_contenders() {
    contenders(2, 1);
}

fn two_contenders_twice() {
    contenders(2, 2);
}

fn three_contenders() {
    contenders(3, 1);
}

/// A word whose page is far away: whoever loads it holds its bucket while others come and fall asleep.
struct SlowToLoad<'w>(&'w Word);

impl Target for SlowToLoad<'_> {
    type Value = u32;

    fn address(&self) -> u64 {
        self.0.address()
    }
    fn load(&self) -> Result<u32, Fault> {
        thread::yield_now();
        self.0.load()
    }
    fn compare_exchange(&self, current: u32, new: u32) -> Result<Result<u32, u32>, Fault> {
        self.0.compare_exchange(current, new)
    }
    fn fault_in(&self, access: Access) -> Result<(), Fault> {
        self.0.fault_in(access)
    }
}

/// Sleepers on a bucket that becomes not live: nobody will unlock it again.
fn sleepers_on_a_retired_bucket() {
    let world = World::<Live>::with_slots(2);
    world.word.store(1);
    // Each locks the bucket once.
    let wait_in_vain = |world: &World<Live>| assert_eq!(world.queue(pin!(Waiter::new())).err(), Some(Error::Again));
    let others = [(); 2].map(|()| {
        let world = world.clone();
        thread::spawn(move || wait_in_vain(&world))
    });
    let slow = SlowToLoad(&world.word);
    assert_eq!(world.domain.wait(slow, 0), Err(Error::Again));
    world.domain.set_slots(4).expect("a table can be made");
    others.into_iter().for_each(|other| other.join().unwrap());
}

#[test]
fn two_contenders_exclude_each_other_and_end() {
    check_pair(two_contenders);
    check_pair(two_contenders_twice);
}

#[test]
fn three_contenders_exclude_each_other_and_end() {
    check(three_contenders);
}

#[test]
fn sleepers_on_a_retired_bucket_all_go_on() {
    check(sleepers_on_a_retired_bucket);
}

catches!(lock_catches_no_contended_barrier, NoContendedBarrier, two_contenders);
catches!(lock_catches_no_unlock_barrier, NoUnlockBarrier, two_contenders);
catches!(lock_catches_unlock_skips_sleepers, UnlockSkipsSleepers, two_contenders);
catches!(lock_catches_leaver_forgets_sleepers, LeaverForgetsSleepers, sleepers_on_a_retired_bucket);
