//! The lock under contention: one holder at a time, and no sleeper is forgotten.
//!
//! The interleaving looked for: the holder stores "unlocked" and then finds no contender, while a contender raises
//! `contended` and then finds the lock held. By [C] and [D] one of the two sees the other's store. An unlock wakes all
//! sleeping contenders. A contender that is only about to sleep then finds `contended` lowered, unless a third one has
//! raised it again. The third one unlocks later, or lowers it and wakes again if the bucket is not live.
//!
//! And a starving contender ([V]): the holder unlocks, locks again and grants the lock, while the contender takes the
//! lock itself, another contender claims the grant too, or the bucket is retired and becomes live again.
//!
//! Promise: lock handed over

use std::pin::pin;

use loom::sync::Arc;
use loom::thread;
use ufutex_loom::model::{LIVE, Lock, PlatformRef, StateLock};
use ufutex_loom::{Access, Error, Fault, Key, Target, Waiter};

use crate::support::{PAIR, TRIO, Word, World, catches, check, check_pair};

fn contenders(threads: usize, rounds: usize) {
    let counter = Arc::new(Lock::new(PlatformRef::HOST, 0));
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

/// A word that takes long to load. The thread that loads it holds its bucket while other threads come and fall asleep.
struct SlowToLoad<'w>(&'w Word);

impl Key for SlowToLoad<'_> {
    fn address(&self) -> u64 {
        self.0.address()
    }
}

impl Target for SlowToLoad<'_> {
    type Value = u32;

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

/// Contenders sleep on a bucket that becomes not live, so no thread will unlock it again.
fn sleepers_on_a_retired_bucket() {
    let world = World::with_slots(2);
    world.word.store(1);
    // Each thread locks the bucket once.
    let wait_in_vain = |world: &World| assert_eq!(world.queue(pin!(Waiter::new())).err(), Some(Error::Again));
    let others = [(); 2].map(|()| {
        let world = world.clone();
        thread::spawn(move || wait_in_vain(&world))
    });
    let slow = SlowToLoad(&world.word);
    assert_eq!(world.domain.wait(slow, 0), Err(Error::Again));
    world.domain.set_slots(4).expect("a table can be made");
    others.into_iter().for_each(|other| other.join().unwrap());
}

/// One thread locks again and again while others starve. Each gets the lock once.
fn starving(others: usize) {
    let counter = Arc::new(Lock::new(PlatformRef::HOST, 0));
    let others: Vec<_> = (0..others)
        .map(|_| {
            let counter = counter.clone();
            thread::spawn(move || counter.lock_starving().with(|count| *count += 1))
        })
        .collect();
    let mut total = others.len();
    for _ in 0..2 {
        counter.lock().with(|count| *count += 1);
        total += 1;
    }
    others.into_iter().for_each(|other| other.join().unwrap());
    assert_eq!(counter.lock().with(|count| *count), total);
}

fn one_starves() {
    starving(1);
}

fn two_starve() {
    starving(2);
}

/// A bucket is retired while contenders of it starve. `returns`: it becomes live again, and is locked once more.
fn starving_on_a_retired_bucket(contenders: usize, returns: bool) {
    let bucket = Arc::new(StateLock::new(LIVE));
    assert_eq!(bucket.lock(&PlatformRef::HOST), Some(LIVE));
    let contenders: Vec<_> = (0..contenders)
        .map(|_| {
            let bucket = bucket.clone();
            thread::spawn(move || {
                let locked = bucket.lock_starving(&PlatformRef::HOST);
                assert!(locked.is_none_or(|state| returns && state == LIVE), "not live, or live again");
                if locked.is_some() {
                    bucket.unlock(&PlatformRef::HOST, LIVE);
                }
            })
        })
        .collect();
    bucket.unlock(&PlatformRef::HOST, 0);
    if returns {
        bucket.make_live();
        for _ in 0..2 {
            assert_eq!(bucket.lock(&PlatformRef::HOST), Some(LIVE));
            bucket.unlock(&PlatformRef::HOST, LIVE);
        }
    }
    contenders.into_iter().for_each(|contender| contender.join().unwrap());
}

fn starving_on_retired() {
    starving_on_a_retired_bucket(1, false);
}

fn two_starving_on_retired() {
    starving_on_a_retired_bucket(2, false);
}

fn starving_on_returning() {
    starving_on_a_retired_bucket(1, true);
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

#[test]
fn a_starving_contender_gets_the_lock_and_gets_it_alone() {
    check_pair(one_starves);
    check(two_starve);
}

#[test]
fn starving_contenders_of_a_retired_bucket_are_granted_nothing() {
    check_pair(starving_on_retired);
    check(two_starving_on_retired);
}

#[test]
fn a_grant_of_a_bucket_that_has_come_back_is_not_lost() {
    check_pair(starving_on_returning);
}

catches!(lock_catches_no_contended_barrier, NoContendedBarrier, PAIR, two_contenders);
catches!(lock_catches_no_unlock_barrier, NoUnlockBarrier, PAIR, two_contenders);
catches!(lock_catches_unlock_skips_sleepers, UnlockSkipsSleepers, PAIR, two_contenders);
catches!(lock_catches_leaver_forgets_sleepers, LeaverForgetsSleepers, TRIO, sleepers_on_a_retired_bucket);
catches!(lock_catches_starving_leaves_mark, StarvingLeavesMark, PAIR, one_starves);
catches!(lock_catches_claim_trusts_look, ClaimTrustsLook, TRIO, two_starve);
catches!(lock_catches_grant_relaxed, GrantRelaxed, PAIR, one_starves);
catches!(lock_catches_grant_unlocks, GrantUnlocks, PAIR, one_starves);
catches!(lock_catches_grant_is_silent, GrantIsSilent, PAIR, one_starves);
catches!(lock_catches_grant_of_retired, GrantOfRetired, PAIR, starving_on_retired);
catches!(lock_catches_leaver_forgets_grant, LeaverForgetsGrant, PAIR, starving_on_returning);
