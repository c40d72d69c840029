//! Domains that share no contended lock do not wait for each other.
//!
//! Promise: separate regions

use std::sync::atomic::{AtomicBool, Ordering::Relaxed, Ordering::SeqCst};
use std::task::Poll;

use ufutex::scheme::Scheme;
use ufutex::{Cause, Config, Domain, Error, ObjectId, Options, Shared, System, pi::Priority};

use crate::common::asleep::until;
use crate::common::domains::on_every_scheme;
use crate::common::guest_memory::{Event, GuestMemory};
use crate::futures::{pending, poll};
use crate::places::{Word, words};
use crate::scheduler::Log;

fn domains<S: Scheme>() -> (System, [Domain<S>; 2]) {
    let (_, system) = Log::system(Config::new());
    let domains = [(); 2].map(|()| Domain::with_options_in(&system, Options::new()));
    (system, domains)
}

/// Runs `meanwhile` while an operation of `domain` on a contended lock is blocked in a load and holds the locks of its
/// bucket and of its region.
pub fn while_one_is_stuck<S: Scheme, R>(domain: &Domain<S>, meanwhile: impl FnOnce() -> R) -> R {
    let [is_slow, is_inside] = [const { AtomicBool::new(false) }; 2];
    let memory = GuestMemory::with_hook(|event, _| {
        if event == Event::Load && is_slow.load(SeqCst) {
            is_inside.store(true, SeqCst);
            until("the load may end", || !is_slow.load(SeqCst));
        }
        Ok(())
    });
    let word = memory.target(0);
    let [owner, waiter] = [101, 102].map(|tid| domain.task(tid).expect("the TID is free"));
    assert_eq!(domain.lock_pi(word, &owner, None), Ok(()));
    let result = std::thread::scope(|scope| {
        is_slow.store(true, SeqCst);
        let stuck = scope.spawn(|| {
            let mut wait = pending(domain.lock_pi_async(word, &waiter));
            assert_eq!(wait.as_mut().end(Cause::TimedOut), Err(Error::TimedOut));
        });
        until("the operation is in the load", || is_inside.load(SeqCst));
        let result = meanwhile();
        assert!(!stuck.is_finished());
        is_slow.store(false, SeqCst);
        result
    });
    assert_eq!(domain.unlock_pi(word, &owner), Ok(()));
    result
}

/// Makes every operation that a domain has for PI locks and tasks.
pub fn use_all_operations<S: Scheme>(domain: &Domain<S>) {
    let [word, from] = words();
    let [a, b, c] = [1, 2, 3].map(|tid| domain.task(tid).expect("the TID is free"));
    b.set_priority(Priority::realtime(7));
    assert_eq!(domain.lock_pi(word, &a, None), Ok(()));
    let mut wait_of_c = pending(domain.lock_pi_async(word, &c));
    let mut wait_of_b = pending(domain.lock_pi_async(word, &b));
    assert_eq!(a.priority(), Priority::realtime(7));
    assert_eq!(domain.unlock_pi(word, &a), Ok(()));
    assert_eq!((poll(&mut wait_of_c), poll(&mut wait_of_b)), (Poll::Pending, Poll::Ready(Ok(()))));
    let mut wait = pending(domain.wait_requeue_pi_async(from, 0, word, &a));
    assert_eq!(domain.cmp_requeue_pi(from, 0, word, 0), Ok(1));
    drop(wait_of_b);
    drop(b);
    assert_eq!(poll(&mut wait_of_c), Poll::Ready(Ok(())));
    assert_eq!(domain.unlock_pi(word, &c), Ok(()));
    assert_eq!(poll(&mut wait), Poll::Ready(Ok(())));
    assert_eq!(domain.try_lock_pi(word, &c), Err(Error::Again));
    assert_eq!(domain.unlock_pi(word, &a), Ok(()));
}

fn operations_of_unrelated_domains_do_not_match<S: Scheme>() {
    let (system, [here, there]) = domains::<S>();
    while_one_is_stuck(&here, || {
        use_all_operations(&there);
        // A domain that is made only now is not blocked either.
        use_all_operations(&Domain::<S>::with_options_in(&system, Options::new()));
    });
}

fn object(word: Word) -> Shared<Word> {
    Shared::object(word, ObjectId::new(5).expect("small enough"), 64)
}

/// Two domains waited for each other's tasks once. After all of these waits have ended, neither blocks the other.
fn domains_are_independent_again_after_their_waits_have_ended<S: Scheme>() {
    let (_, [here, there]) = domains::<S>();
    let [word] = words();
    let lock = object(word);
    let [a, c] = [1, 3].map(|tid| here.task(tid).expect("the TID is free"));
    let b = there.task(2).expect("the TID is free");
    b.set_priority(Priority::realtime(9));
    for round in 0..3 {
        assert_eq!(here.lock_pi(lock, &a, None), Ok(()));
        let mut waits = [pending(here.lock_pi_async(lock, &c)), pending(there.lock_pi_async(lock, &b))];
        match round {
            0 => assert_eq!(waits[0].as_mut().end(Cause::TimedOut), Err(Error::TimedOut)),
            _ => assert_eq!(here.unlock_pi(lock, &a), Ok(())),
        }
        if round == 0 {
            assert_eq!(waits[1].as_mut().end(Cause::TimedOut), Err(Error::TimedOut));
            assert_eq!(here.unlock_pi(lock, &a), Ok(()));
        } else {
            assert_eq!(waits.each_mut().map(poll), [Poll::Pending, Poll::Ready(Ok(()))]);
            assert_eq!(there.unlock_pi(lock, &b), Ok(()));
            assert_eq!(poll(&mut waits[0]), Poll::Ready(Ok(())));
            assert_eq!(here.unlock_pi(lock, &c), Ok(()));
        }
        assert_eq!((a.priority(), word.load(Relaxed)), (Priority::NORMAL, 0));
    }
    drop((a, b, c));
    while_one_is_stuck(&here, || use_all_operations(&there));
    while_one_is_stuck(&there, || use_all_operations(&here));
}

/// A domain whose task waits for a task of another domain shares its region. A third domain does not.
fn only_domains_that_wait_for_each_other_share_a_region<S: Scheme>() {
    let (system, [here, there]) = domains::<S>();
    let [word] = words();
    let lock = object(word);
    let (a, b) = (here.task(51).expect("the TID is free"), there.task(52).expect("the TID is free"));
    assert_eq!(here.lock_pi(lock, &a, None), Ok(()));
    let wait = pending(there.lock_pi_async(lock, &b));
    while_one_is_stuck(&here, || use_all_operations(&Domain::<S>::with_options_in(&system, Options::new())));
    drop(wait);
    while_one_is_stuck(&here, || use_all_operations(&there));
}

/// Regions are reused after their domains and tasks have been dropped, also if the tasks are dropped after their
/// domain.
fn regions_are_reused<S: Scheme>() {
    let (_, system) = Log::system(Config::new());
    let [word] = words();
    let lock = object(word);
    for round in 0..50u32 {
        let domains = [(); 3].map(|()| Domain::<S>::with_options_in(&system, Options::new()));
        let tid = 10 * round;
        let [a, b, c] = [0, 1, 2].map(|i| domains[i as usize].task(tid + i + 1).expect("the TID is free"));
        let [here, there, third] = domains;
        assert_eq!(here.lock_pi(lock, &a, None), Ok(()));
        let mut b_waits = pending(there.lock_pi_async(lock, &b));
        let mut c_waits = pending(third.lock_pi_async(lock, &c));
        // The lock belongs to a region whose domain and tasks have been dropped.
        drop((here, a));
        assert_eq!(poll(&mut b_waits), Poll::Ready(Ok(())));
        drop(b_waits);
        if round % 2 == 0 {
            drop((there, b));
            assert_eq!(poll(&mut c_waits), Poll::Ready(Ok(())));
        } else {
            assert_eq!(there.unlock_pi(lock, &b), Ok(()));
            assert_eq!(poll(&mut c_waits), Poll::Ready(Ok(())));
        }
        assert_eq!(third.unlock_pi(lock, &c), Ok(()));
    }
}

on_every_scheme![
    operations_of_unrelated_domains_do_not_match,
    domains_are_independent_again_after_their_waits_have_ended,
    only_domains_that_wait_for_each_other_share_a_region,
    regions_are_reused,
];
