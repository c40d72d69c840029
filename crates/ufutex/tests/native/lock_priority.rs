//! In which order a lock is handed over, and what its owner is lent.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Poll;

use ufutex::layout::Layout;
use ufutex::scheme::Scheme;
use ufutex::{Cause, Config, Domain, Error, Options, Priority, Task};

use crate::common::domains::{domain, on_every_scheme};
use crate::common::waker::Told;
use crate::futures::{Boxed, at_once, pending, pending_with, poll};
use crate::places::{Word, lasting_domain, lasting_task, words};
use crate::scheduler::{Log, tasks};
use crate::sleeping::Sleeping;

type Locks<'d, 't, S, L> = Vec<Boxed<ufutex::LockPi<'d, 't, Word, S, L>>>;

fn prioritise<L: Layout>(task: &Task<L>, priority: u8) {
    task.set_priority(Priority::realtime(priority));
}

/// The TIDs in whose order the lock is handed over, beginning with its owner's.
fn order<S: Scheme<L>, L: Layout>(
    domain: &Domain<S, L>,
    word: Word,
    tasks: &[Task<L>],
    mut locks: Locks<'_, '_, S, L>,
) -> Vec<u32> {
    let mut order = vec![word.load(Relaxed) & ufutex::TID_MASK];
    while let Some(owner) = tasks.iter().find(|task| task.tid() == *order.last().expect("there is one")) {
        let before = locks.len();
        assert_eq!(domain.unlock_pi(word, owner), Ok(()));
        locks.retain_mut(|lock| match poll(lock) {
            Poll::Ready(result) => {
                assert_eq!(result, Ok(()));
                false
            }
            Poll::Pending => true,
        });
        let next = word.load(Relaxed) & ufutex::TID_MASK;
        assert_eq!(before - locks.len(), usize::from(next != 0), "exactly the next owner is told");
        order.push(next);
    }
    order
}

fn lock_goes_to_the_highest_priority_and_then_to_who_came_first<S: Scheme<L>, L: Layout>() {
    let domain = domain::<S, L>();
    let tasks = tasks(&domain, [0, 0, 10, 5, 10, 0, 99, 5]);
    let [word] = words();
    assert_eq!(domain.lock_pi(word, &tasks[0], None), Ok(()));
    let locks = tasks[1..].iter().map(|task| pending(domain.lock_pi_async(word, task))).collect();
    assert_eq!(order(&domain, word, &tasks, locks), [1, 7, 3, 5, 4, 8, 2, 6, 0]);
}

fn priority_that_changes_during_a_wait_changes_the_place<S: Scheme<L>, L: Layout>() {
    let domain = domain::<S, L>();
    let tasks = tasks(&domain, [0, 1, 2, 3, 4]);
    let [word] = words();
    assert_eq!(domain.lock_pi(word, &tasks[0], None), Ok(()));
    let locks = tasks[1..].iter().map(|task| pending(domain.lock_pi_async(word, task))).collect();
    prioritise(&tasks[1], 50); // 2 goes to the head
    prioritise(&tasks[4], 2); // 5 goes behind 3, which came earlier to that priority
    prioritise(&tasks[3], 4); // 4 stays before both
    prioritise(&tasks[3], 4);
    assert_eq!(order(&domain, word, &tasks, locks), [1, 2, 4, 3, 5, 0]);
}

fn threads_are_handed_the_lock_by_priority<S: Scheme<L>, L: Layout>() {
    let domain: &'static Domain<S, L> = lasting_domain();
    let tasks = [1, 2, 3, 4].map(|tid| lasting_task(domain, tid));
    let [word]: [Word; 1] = words();
    assert_eq!(domain.lock_pi(word, tasks[0], None), Ok(()));
    prioritise(tasks[2], 7);
    let [a, b, c] = [1, 2, 3].map(|i| Sleeping::new(move || domain.lock_pi(word, tasks[i], None)));
    prioritise(tasks[3], 8);
    for (owner, next) in [(0, c), (3, b), (2, a)] {
        assert_eq!(domain.unlock_pi(word, tasks[owner]), Ok(()));
        assert_eq!(next.outcome(), Ok(()));
    }
}

fn owner_is_lent_the_best_of_what_waits_for_any_of_its_locks<S: Scheme<L>, L: Layout>() {
    let (log, domain) = Log::domain::<S, L>();
    let tasks = tasks(&domain, [3, 10, 20, 5]);
    let [owner, ten, twenty, five] = tasks.each_ref();
    let all = || log.told(&tasks.each_ref());
    let [first, second] = words();
    assert_eq!(domain.lock_pi(first, owner, None), Ok(()));
    assert_eq!(domain.lock_pi(second, owner, None), Ok(()));
    let by_ten = pending(domain.lock_pi_async(first, ten));
    assert_eq!(all(), [10, 10, 20, 5]);
    let by_twenty = pending(domain.lock_pi_async(second, twenty));
    assert_eq!(all(), [20, 10, 20, 5]);
    let mut by_five = pending(domain.lock_pi_async(second, five));
    assert_eq!(all(), [20, 10, 20, 5]);
    drop(by_twenty);
    assert_eq!(all(), [10, 10, 20, 5]);
    prioritise(five, 30);
    assert_eq!(all(), [30, 10, 20, 30]);
    prioritise(owner, 40);
    assert_eq!(all(), [40, 10, 20, 30]);
    prioritise(owner, 0);
    assert_eq!(all(), [30, 10, 20, 30]);
    // With the lock goes what was lent for it.
    assert_eq!(domain.unlock_pi(second, owner), Ok(()));
    assert_eq!(all(), [10, 10, 20, 30]);
    assert_eq!(poll(&mut by_five), Poll::Ready(Ok(())));
    drop(by_ten);
    assert_eq!(all(), [0, 10, 20, 30]);
}

/// Four tasks, each of which but the first waits for a lock of the one before.
fn boost_goes_along_a_chain_and_back<S: Scheme<L>, L: Layout>() {
    let (log, domain) = Log::domain::<S, L>();
    let tasks = tasks(&domain, [1, 2, 0, 0, 50]);
    let all = || log.told(&tasks.each_ref());
    let locks: [Word; 4] = words();
    for i in 0..4 {
        assert_eq!(domain.lock_pi(locks[i], &tasks[i], None), Ok(()));
    }
    let mut waits: Vec<_> = (1..4).map(|i| pending(domain.lock_pi_async(locks[i - 1], &tasks[i]))).collect();
    assert_eq!(all(), [2, 2, 0, 0, 50]);
    let dropped = pending(domain.lock_pi_async(locks[3], &tasks[4]));
    assert_eq!(all(), [50, 50, 50, 50, 50]);
    drop(dropped);
    assert_eq!(all(), [2, 2, 0, 0, 50]);
    for (cause, error) in [(Cause::TimedOut, Error::TimedOut), (Cause::Interrupted, Error::Interrupted)] {
        let mut ended = pending(domain.lock_pi_async(locks[3], &tasks[4]));
        prioritise(&tasks[4], 60);
        assert_eq!(all(), [60, 60, 60, 60, 60]);
        assert_eq!(ended.as_mut().end(cause), Err(error));
        assert_eq!(all(), [2, 2, 0, 0, 60]);
    }
    let mut handed = pending(domain.lock_pi_async(locks[3], &tasks[4]));
    assert_eq!(all(), [60, 60, 60, 60, 60]);
    assert_eq!(domain.unlock_pi(locks[3], &tasks[3]), Ok(()));
    assert_eq!(all(), [2, 2, 0, 0, 60]);
    assert_eq!(poll(&mut handed), Poll::Ready(Ok(())));
    // One in the middle leaves.
    let again = pending(domain.lock_pi_async(locks[2], &tasks[4]));
    assert_eq!(all(), [60, 60, 60, 0, 60]);
    drop(waits.remove(0));
    assert_eq!(all(), [1, 60, 60, 0, 60]);
    drop(again);
    assert_eq!(all(), [1, 2, 0, 0, 60]);
}

/// What a waiter is lent decides its place, too.
fn lent_priority_counts_for_the_place_in_a_queue<S: Scheme<L>, L: Layout>() {
    let domain = domain::<S, L>();
    let tasks = tasks(&domain, [0, 5, 4, 9]);
    let [word, of_third] = words();
    assert_eq!(domain.lock_pi(word, &tasks[0], None), Ok(()));
    assert_eq!(domain.lock_pi(of_third, &tasks[2], None), Ok(()));
    let locks = tasks[1..3].iter().map(|task| pending(domain.lock_pi_async(word, task))).collect();
    let lender = pending(domain.lock_pi_async(of_third, &tasks[3]));
    assert_eq!(tasks[0].priority(), Priority::realtime(9));
    assert_eq!(order(&domain, word, &tasks, locks), [1, 3, 2, 0]);
    drop(lender);
}

fn only_the_one_that_has_the_lock_is_told<S: Scheme<L>, L: Layout>() {
    let domain = domain::<S, L>();
    let tasks = tasks(&domain, [0, 1, 2]);
    let [word] = words();
    assert_eq!(domain.lock_pi(word, &tasks[0], None), Ok(()));
    let [(low, low_waker), (high, high_waker), (newer, newer_waker)] = [(); 3].map(|()| Told::new());
    let mut lower = pending_with(domain.lock_pi_async(word, &tasks[1]), &low_waker);
    let mut higher = pending_with(domain.lock_pi_async(word, &tasks[2]), &high_waker);
    assert_eq!(crate::futures::poll_with(&mut higher, &newer_waker), Poll::Pending);
    assert_eq!(Arc::strong_count(&high), 2, "let go");
    assert_eq!(domain.unlock_pi(word, &tasks[0]), Ok(()));
    assert_eq!((low.times(), high.times(), newer.times()), (0, 0, 1));
    assert_eq!((poll(&mut lower), poll(&mut higher)), (Poll::Pending, Poll::Ready(Ok(()))));
}

fn depth(depth: usize) -> Config {
    Config::new().max_pi_depth(depth)
}

fn chain_longer_than_the_system_allows_is_refused_and_counted<S: Scheme<L>, L: Layout>() {
    let (log, system) = Log::system::<L>(depth(2));
    let domain = Domain::<S, L>::with_options(&system, Options::new());
    let tasks = tasks(&domain, [0, 0, 0, 0, 9]);
    let locks: [Word; 4] = words();
    for i in 0..4 {
        assert_eq!(domain.lock_pi(locks[i], &tasks[i], None), Ok(()));
    }
    let mut waits: Vec<_> = (1..4).map(|i| pending(domain.lock_pi_async(locks[i - 1], &tasks[i]))).collect();
    assert_eq!(system.pi_chains_refused(), 0);
    assert_eq!(at_once(domain.lock_pi_async(locks[3], &tasks[4])), Err(Error::Deadlock));
    assert_eq!(domain.lock_pi(locks[3], &tasks[4], None), Err(Error::Deadlock));
    assert_eq!(system.pi_chains_refused(), 2);
    assert_eq!(log.told(&tasks.each_ref()), [0, 0, 0, 0, 9]);
    // A deadlock is none of these.
    assert_eq!(at_once(domain.lock_pi_async(locks[2], &tasks[0])), Err(Error::Deadlock));
    assert_eq!(system.pi_chains_refused(), 2);
    // Shorter again, it is allowed.
    drop(waits.remove(0));
    let _last = pending(domain.lock_pi_async(locks[3], &tasks[4]));
    assert_eq!(log.told(&tasks.each_ref()), [0, 9, 9, 9, 9]);
}

/// The same length, but each new wait is that of the last owner: the chain grows at its other end.
fn chain_that_grows_at_its_end_is_limited_too<S: Scheme<L>, L: Layout>() {
    let (_, system) = Log::system::<L>(depth(2));
    let domain = Domain::<S, L>::with_options(&system, Options::new());
    let tasks = tasks(&domain, [0; 6]);
    let locks: [Word; 6] = words();
    for i in 0..6 {
        assert_eq!(domain.lock_pi(locks[i], &tasks[i], None), Ok(()));
    }
    let _waits: Vec<_> = (0..3).map(|i| pending(domain.lock_pi_async(locks[i + 1], &tasks[i]))).collect();
    assert_eq!(at_once(domain.lock_pi_async(locks[4], &tasks[3])), Err(Error::Deadlock));
    assert_eq!(system.pi_chains_refused(), 1);
}

/// Several threads change priorities of a chain at the same time: what the scheduler was told last holds.
fn scheduler_is_told_of_the_last_change_last<S: Scheme<L>, L: Layout>() {
    let (log, domain) = Log::domain::<S, L>();
    let tasks = tasks(&domain, [0; 5]);
    let locks: [Word; 4] = words();
    for i in 0..4 {
        assert_eq!(domain.lock_pi(locks[i], &tasks[i], None), Ok(()));
    }
    let _waits: Vec<_> = (1..4).map(|i| pending(domain.lock_pi_async(locks[i - 1], &tasks[i]))).collect();
    let (domain, tasks) = (&domain, &tasks);
    for round in 0..20 {
        std::thread::scope(|scope| {
            for (i, task) in tasks.iter().enumerate().skip(1) {
                scope.spawn(move || (0..50).for_each(|n| prioritise(task, ((n * 7 + i * 13 + round) % 99) as u8)));
            }
            scope.spawn(move || {
                for _ in 0..50 {
                    drop(pending(domain.lock_pi_async(locks[3], &tasks[4])));
                }
            });
        });
        log.told(&tasks.each_ref());
    }
}

on_every_scheme![
    lock_goes_to_the_highest_priority_and_then_to_who_came_first,
    priority_that_changes_during_a_wait_changes_the_place,
    threads_are_handed_the_lock_by_priority,
    owner_is_lent_the_best_of_what_waits_for_any_of_its_locks,
    boost_goes_along_a_chain_and_back,
    lent_priority_counts_for_the_place_in_a_queue,
    only_the_one_that_has_the_lock_is_told,
    chain_longer_than_the_system_allows_is_refused_and_counted,
    chain_that_grows_at_its_end_is_limited_too,
    scheduler_is_told_of_the_last_change_last,
];
