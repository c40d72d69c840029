//! Waits on several words, requeues, and a wake of many waiters.

use std::num::NonZeroU32;
use std::sync::atomic::AtomicU32;

use ufutex::{Domain, DomainOptions, Policy, Requeue, Requeued, System, WaitOptions};

use crate::clocks::both;
use crate::polls::{pending, poll};
use crate::waker::block_on;

#[test]
fn wait_for_several_is_dropped_while_one_is_woken() {
    let domain: Domain = Domain::new(&System::new());
    let words = [const { AtomicU32::new(0) }; 3];
    for _ in 0..3 {
        let wait = pending(domain.wait_any_async(words.each_ref().map(|word| (word, 0)), &WaitOptions::new()));
        both(|| _ = domain.wake(&words[1], 1), || drop(wait));
    }
    assert_eq!(domain.waiting(), 0);
}

#[test]
fn wait_for_several_is_woken_by_two() {
    let domain: Domain = Domain::new(&System::new());
    let words = [const { AtomicU32::new(0) }; 2];
    let mut wait = Box::pin(domain.wait_any_async(words.each_ref().map(|word| (word, 0)), &WaitOptions::new()));
    assert!(poll(&mut wait).is_pending());
    std::thread::scope(|scope| {
        for word in &words {
            let domain = &domain;
            scope.spawn(move || domain.wake(word, 1));
        }
        assert!(block_on(wait).is_ok_and(|index| index < 2));
    });
}

#[test]
fn thread_waits_for_several() {
    let domain: Domain = Domain::new(&System::new());
    let words = [const { AtomicU32::new(0) }; 2];
    both(
        || {
            while domain.wake(&words[0], 1) == 0 {
                std::thread::yield_now();
            }
        },
        || assert_eq!(domain.wait_any(&[(&words[0], 0), (&words[1], 0)], &WaitOptions::new()), Ok(0)),
    );
}

#[test]
fn waiters_are_moved_while_others_leave_both_queues() {
    let domain: Domain = Domain::new(&System::new());
    let (from, to) = (AtomicU32::new(0), AtomicU32::new(0));
    let mut waits: Vec<_> = (0..4).map(|_| pending(domain.wait_async(&from, 0, &WaitOptions::new()))).collect();
    let there = pending(domain.wait_async(&to, 0, &WaitOptions::new()));
    let last = waits.pop();
    both(
        || {
            let Requeued { woken, requeued } =
                domain.requeue(&from, &to, Requeue { wake: 1, requeue: 2 }).expect("they are plain waiters");
            assert!(woken <= 1 && requeued <= 2);
        },
        || {
            drop(waits);
            drop(there);
        },
    );
    drop(last);
    assert_eq!(domain.waiting(), 0);
}

/// A wake that passes over more than 256 waiters unlocks the bucket in between. It marks its place in the queue by a
/// marker that lies on its own stack.
#[test]
fn waiters_leave_while_a_wake_passes_over_them() {
    const CROWD: usize = 300;
    let domain: Domain = Domain::with_options(&System::new(), DomainOptions::new().policy(Policy::Fixed(0)));
    let word = AtomicU32::new(0);
    let bits = |bitset: u32| NonZeroU32::new(bitset).expect("it is not 0");
    let wait = |bitset| pending(domain.wait_async(&word, 0, &WaitOptions::new().bitset(bits(bitset))));
    let mut waits: Vec<_> = (0..CROWD).map(|_| wait(1)).collect();
    let last = wait(2);
    let behind = waits.split_off(200);
    both(
        || assert_eq!(domain.wake_bitset(&word, 2, bits(2)), 1),
        || {
            drop(behind);
            assert!(
                domain
                    .requeue(&word, &word, Requeue { wake: 0, requeue: CROWD })
                    .is_ok_and(|done| done.requeued >= 200)
            );
            drop(waits);
        },
    );
    drop(last);
    assert_eq!(domain.waiting(), 0);
}
