//! The counters of a domain.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use ufutex::{
    At, Compare, Domain, DomainOptions, Error, Modify, Policy, Requeue, Timeout, WaitOptions, WakeOp, Width,
    observe::Counters,
};

use crate::common::asleep::until;
use crate::common::domains::{on_domains, on_resizable_domains, system};
use crate::common::guest_memory::GuestMemory;
use crate::common::waiters::{bits, idle, nonzero, queue, queue_with, waiter_on, waiters_on};

fn counting(options: DomainOptions) -> Domain {
    Domain::with_options(&system(), options.counters(true))
}

/// Runs `f` and checks that the counters have changed as `what` changes the defaults.
fn assert_counts(domain: &Domain, f: impl FnOnce(), what: impl FnOnce(&mut Counters)) {
    let before = domain.counters();
    f();
    let counted = domain.counters().since(&before);
    let mut expected = Counters::default();
    expected.longest_chain = counted.longest_chain;
    what(&mut expected);
    assert_eq!(counted, expected);
}

fn waits_and_mismatches_are_counted() {
    for early_return in [false, true] {
        let domain = counting(DomainOptions::new().early_return(early_return));
        let word = AtomicU32::new(0);
        let differs = || {
            assert_eq!(domain.wait(&word, 1), Err(Error::Again));
            assert_eq!(domain.wait(At::address_space(&word), 1), Err(Error::Again));
        };
        assert_counts(&domain, differs, |c| c.mismatches = 2);
        let soon = WaitOptions::new().timeout(Timeout::After(Duration::from_micros(10)));
        let times_out = || assert_eq!(domain.wait_with(&word, 0, &soon), Err(Error::TimedOut));
        assert_counts(&domain, times_out, |c| c.waits = 1);
        let custom = || assert!(queue(&domain, &mut idle(1)[0], &word).cancel());
        assert_counts(&domain, custom, |c| c.waits = 1);
        let task = |expected| {
            let mut wait = pin!(domain.wait_async(&word, expected, &WaitOptions::new()));
            let _ = wait.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        };
        assert_counts(&domain, || task(0), |c| c.waits = 1);
        assert_counts(&domain, || task(1), |c| c.mismatches = 1);
        // A wait that fails with EINVAL is not counted.
        let memory = GuestMemory::new();
        let narrow = memory.target_of(1, Width::U8);
        assert_counts(&domain, || assert_eq!(domain.wait(narrow, 256), Err(Error::Invalid)), |_| ());
    }
}

fn wakes_are_counted_by_whether_they_woke_anybody() {
    let domain = counting(DomainOptions::new());
    let [word, other] = [(); 2].map(|()| AtomicU32::new(0));
    let operation = || assert_eq!(domain.wake(&word, 1) + domain.wake(At::address_space(&word), 1), 0);
    assert_counts(&domain, operation, |c| c.empty_wakes = 2);
    let mut waiters = idle(40);
    let queued: Vec<_> = waiters.iter_mut().map(|waiter| queue_with(&domain, waiter, &word, bits(1))).collect();
    let not_meant = || assert_eq!(domain.wake_bitset(&word, 1, nonzero(2)), 0);
    assert_counts(&domain, not_meant, |c| c.empty_wakes = 1);
    let some = || assert_eq!(domain.wake(&word, 20) + domain.wake(&word, 3), 23);
    assert_counts(&domain, some, |c| (c.wakes, c.woken) = (2, 23));
    let op = WakeOp { modify: Modify::Set(1), compare: Compare::Eq(0) };
    let both = || assert_eq!(domain.wake_op(&word, 2, &other, op, 1), Ok(2));
    assert_counts(&domain, both, |c| (c.wakes, c.woken) = (1, 2));
    drop(queued);
}

fn requeues_are_counted() {
    let domain = counting(DomainOptions::new());
    let [from, to] = [(); 2].map(|()| AtomicU32::new(0));
    let operation = || assert!(domain.requeue(&from, &to, Requeue { wake: 1, requeue: 1 }).is_ok());
    assert_counts(&domain, operation, |_| ());
    let queued = waiters_on(&domain, &from, 10);
    let some = || {
        assert_eq!(
            domain.cmp_requeue(&from, 0, &to, Requeue { wake: 2, requeue: 5 }).map(|r| (r.woken, r.requeued)),
            Ok((2, 5))
        )
    };
    assert_counts(&domain, some, |c| (c.requeues, c.woken, c.requeued) = (1, 2, 5));
    drop(queued);
}

fn requeues_to_a_lock_are_counted() {
    let domain = counting(DomainOptions::new());
    let [condition, lock] = [(); 2].map(|()| AtomicU32::new(0));
    let [first, second] = [1, 2].map(|tid| domain.task(tid).expect("the number is free"));
    let mut context = Context::from_waker(Waker::noop());
    let mut waits = [&first, &second]
        .map(|task| Box::pin(domain.wait_requeue_pi_async(&condition, 0, &lock, task, &WaitOptions::new())));
    let both_wait = || waits.iter_mut().for_each(|wait| assert!(wait.as_mut().poll(&mut context).is_pending()));
    assert_counts(&domain, both_wait, |c| c.waits = 2);
    let both_go = || assert_eq!(domain.cmp_requeue_pi(&condition, 0, &lock, 1), Ok(2));
    assert_counts(&domain, both_go, |c| (c.requeues, c.woken, c.requeued) = (1, 1, 1));
    let who = domain.who_waits(10);
    assert_eq!(who.iter().map(|word| (word.for_lock, word.tasks)).collect::<Vec<_>>(), [(1, 0)]);
    assert!(format!("{who:?}").contains("1 for the lock"), "{who:?}");
}

fn threads_that_count_at_once_lose_nothing() {
    const EACH: u64 = 5000;
    let domain = counting(DomainOptions::new());
    let word = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..EACH {
                    assert_eq!(domain.wait(&word, 1), Err(Error::Again));
                    assert_eq!(domain.wake(&word, 1), 0);
                }
            });
        }
    });
    let counters = domain.counters();
    assert_eq!((counters.mismatches, counters.empty_wakes), (4 * EACH, 4 * EACH));
}

fn operations_are_not_counted_unless_asked_for() {
    let domain = Domain::with_options(&system(), DomainOptions::new());
    let word = AtomicU32::new(0);
    assert_eq!(domain.wait(&word, 1), Err(Error::Again));
    assert_eq!(domain.wake(&word, 1), 0);
    let queued = waiter_on(&domain, &word);
    assert_eq!(domain.wake(&word, 1), 1);
    drop(queued);
    let mut expected = Counters::default();
    expected.longest_chain = 1;
    assert_eq!(domain.counters(), expected);
}

/// Sixteen words of one cache line, which share a bucket in a small table.
#[derive(Default)]
#[repr(align(64))]
struct Line([AtomicU32; 16]);

fn longest_chain_is_the_most_words_in_a_bucket() {
    let domain = Domain::with_options(&system(), DomainOptions::new().policy(Policy::Fixed(4)));
    let line = Line::default();
    let mut waiters = idle(6);
    // Two waiters wait for one of the five words.
    let words = [0, 1, 2, 3, 4, 0].map(|i| &line.0[i]);
    let queued: Vec<_> = waiters.iter_mut().zip(words).map(|(waiter, word)| queue(&domain, waiter, word)).collect();
    assert_eq!(domain.counters().longest_chain, 5);
    drop(queued);
    let queued = queue(&domain, &mut waiters[0], &line.0[0]);
    assert_eq!(domain.counters().longest_chain, 5, "that of all time");
    drop(queued);
}

/// The counters are read while the bucket is locked.
fn lock_that_another_thread_holds_is_counted() {
    for (policy, is_shared) in [(Policy::Load, false), (Policy::Load, true), (Policy::Fixed(0), false)] {
        let domain = Domain::with_options(&system(), DomainOptions::new().early_return(false).policy(policy));
        let is_armed = AtomicBool::new(false);
        // The next load ends when another thread has found the bucket locked.
        let memory = GuestMemory::with_hook(|_, _| {
            if is_armed.swap(false, Ordering::SeqCst) {
                until("another thread wants the bucket", || domain.counters().contended_locks > 0);
            }
            Ok(())
        });
        let word = memory.target(64);
        let wait = || if is_shared { domain.wait(At::address_space(word), 1) } else { domain.wait(word, 1) };
        assert_eq!(wait(), Err(Error::Again));
        assert_eq!(domain.counters().contended_locks, 0);
        is_armed.store(true, Ordering::SeqCst);
        std::thread::scope(|scope| {
            // This wait loads its word, and blocks, with the bucket locked.
            scope.spawn(|| assert_eq!(wait(), Err(Error::Again)));
            until("the bucket is locked", || !is_armed.load(Ordering::SeqCst));
            assert_eq!(wait(), Err(Error::Again));
        });
        assert_eq!(domain.counters().contended_locks, 1, "{policy:?}, shared: {is_shared}");
    }
}

fn resizes_that_move_waiters_are_counted() {
    let domain = Domain::with_options(&system(), DomainOptions::new());
    let mut expected = 0;
    for (slots, is_move) in [(16, false), (64, true), (64, false), (2, true), (0, true), (32, true)] {
        assert_eq!(domain.set_slots(slots), Ok(()));
        expected += u64::from(is_move);
        assert_eq!(domain.counters().resizes, expected, "after a move to {slots} slots");
    }
}

fn debug_of_a_domain_shows_its_counters() {
    let domain = counting(DomainOptions::new());
    let word = AtomicU32::new(0);
    let queued = waiter_on(&domain, &word);
    let text = format!("{domain:?}");
    assert!(text.contains("waiting: 1") && text.contains("waits: 1"), "{text}");
    drop(queued);
}

on_domains![
    waits_and_mismatches_are_counted,
    wakes_are_counted_by_whether_they_woke_anybody,
    requeues_are_counted,
    requeues_to_a_lock_are_counted,
    threads_that_count_at_once_lose_nothing,
    operations_are_not_counted_unless_asked_for,
    longest_chain_is_the_most_words_in_a_bucket,
    lock_that_another_thread_holds_is_counted,
    debug_of_a_domain_shows_its_counters,
];
on_resizable_domains![resizes_that_move_waiters_are_counted];

#[test]
#[cfg_attr(feature = "counted", ignore = "the scheme does not grow by load")]
fn growth_by_load_is_counted() {
    let domain = Domain::with_options(&system(), DomainOptions::new());
    let words: Vec<Line> = (0..400).map(|_| Line::default()).collect();
    let mut waiters = idle(400);
    let queued: Vec<_> =
        std::iter::zip(&words, &mut waiters).map(|(line, waiter)| queue(&domain, waiter, &line.0[0])).collect();
    assert!(domain.slots() > 16 && domain.counters().resizes > 0, "{domain:?}");
    drop(queued);
}
