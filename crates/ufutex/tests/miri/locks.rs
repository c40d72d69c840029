//! PI locks: futures that are handed the lock, polled and dropped at the same time.

use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;

use ufutex::{Domain, System, Timeout, WaitOptions};

use crate::clocks::{both, system};
use crate::polls::{pending, poll};
use crate::waker::block_on;

#[test]
fn lock_is_handed_over_to_a_future() {
    let domain: Domain = Domain::new(&System::new());
    let (owner, waiter) = (domain.task(1).expect("it is free"), domain.task(2).expect("it is free"));
    let word = AtomicU32::new(0);
    domain.lock_pi(&word, &owner).expect("it is free");
    let lock = pending(domain.lock_pi_async(&word, &waiter, &WaitOptions::new()));
    both(|| domain.unlock_pi(&word, &owner).expect("it is its"), || block_on(lock).expect("it is handed over"));
    domain.unlock_pi(&word, &waiter).expect("it is its");
    assert_eq!(word.load(Ordering::Relaxed), 0);
}

#[test]
fn lock_is_handed_to_a_future_that_is_dropped() {
    let domain: Domain = Domain::new(&System::new());
    let tasks = [1, 2, 3].map(|tid| domain.task(tid).expect("it is free"));
    let word = AtomicU32::new(0);
    domain.lock_pi(&word, &tasks[0]).expect("it is free");
    let gives_up = pending(domain.lock_pi_async(&word, &tasks[1], &WaitOptions::new()));
    let stays = pending(domain.lock_pi_async(&word, &tasks[2], &WaitOptions::new()));
    both(
        || domain.unlock_pi(&word, &tasks[0]).expect("it is its"),
        || {
            drop(gives_up);
            block_on(stays).expect("it is handed over");
        },
    );
    domain.unlock_pi(&word, &tasks[2]).expect("it is its");
}

#[test]
fn owner_dies_while_its_waiters_are_polled() {
    let domain: Domain = Domain::new(&System::new());
    let (owner, waiter) = (domain.task(1).expect("it is free"), domain.task(2).expect("it is free"));
    let word = AtomicU32::new(0);
    domain.lock_pi(&word, &owner).expect("it is free");
    let mut lock = pending(domain.lock_pi_async(&word, &waiter, &WaitOptions::new()));
    both(
        move || drop(owner),
        || {
            while poll(&mut lock).is_pending() {
                std::thread::yield_now();
            }
        },
    );
    assert_eq!(word.load(Ordering::Relaxed) & 0x3fff_ffff, 2);
}

#[test]
fn lock_times_out_while_it_is_handed_over() {
    let system = system();
    let domain: Domain = Domain::new(&system);
    let (owner, waiter) = (domain.task(1).expect("it is free"), domain.task(2).expect("it is free"));
    let word = AtomicU32::new(0);
    for microseconds in 9..12 {
        domain.lock_pi(&word, &owner).expect("it is free");
        let soon = Timeout::After(std::time::Duration::from_micros(microseconds));
        let mut lock = pending(domain.lock_pi_async(&word, &waiter, &WaitOptions::new().timeout(soon)));
        both(
            || {
                system.driver().turn();
                domain.unlock_pi(&word, &owner).expect("it is its");
            },
            || {
                if let Poll::Ready(Ok(())) = poll(&mut lock) {
                    domain.unlock_pi(&word, &waiter).expect("it is its");
                }
                drop(lock);
            },
        );
        assert_eq!(word.load(Ordering::Relaxed), 0);
    }
}

#[test]
fn waiters_are_requeued_to_a_lock_while_they_are_dropped() {
    let domain: Domain = Domain::new(&System::new());
    let [waker, waiter] = [1, 2].map(|tid| domain.task(tid).expect("it is free"));
    let (condition, lock) = (AtomicU32::new(0), AtomicU32::new(0));
    for _ in 0..3 {
        domain.lock_pi(&lock, &waker).expect("it is free");
        let wait = pending(domain.wait_requeue_pi_async(&condition, 0, &lock, &waiter, &WaitOptions::new()));
        both(
            || {
                domain.cmp_requeue_pi(&condition, 0, &lock, 1).expect("they match");
                domain.unlock_pi(&lock, &waker).expect("it is its");
            },
            || drop(wait),
        );
        assert_eq!(lock.load(Ordering::Relaxed), 0);
    }
}
