//! PI locks and conditions that two domains share.

use std::sync::atomic::Ordering::Relaxed;
use std::task::Poll;

use ufutex::{
    At, Domain, DomainOptions, Error, ObjectId, System, SystemConfig, WaitOptions,
    pi::{Priority, WAITERS},
};

use crate::common::domains::on_domains;
use crate::common::futures::{at_once, pending, poll};
use crate::common::places::{Word, words};
use crate::scheduler::Log;

/// A word of an object that both domains map.
fn object(word: Word, offset: u64) -> At<Word> {
    At::object(word, ObjectId::new(12).expect("small enough"), offset)
}

fn domains(system: &System) -> [Domain; 2] {
    [(); 2].map(|()| Domain::with_options(system, DomainOptions::new()))
}

fn private_lock_with_the_tid_of_another_domains_task_is_esrch() {
    let (_, system) = Log::system(SystemConfig::new());
    let [here, there] = domains(&system);
    let [task, stranger] = [here.task(1), there.task(2)].map(|task| task.expect("it is free"));
    let [word] = words();
    word.store(stranger.tid(), Relaxed);
    assert_eq!(here.lock_pi(word, &task), Err(Error::NoTask));
    assert_eq!(at_once(here.lock_pi_async(word, &task, &WaitOptions::new())), Err(Error::NoTask));
    assert_eq!(here.try_lock_pi(word, &task), Err(Error::NoTask));
    // An operation without the private flag on a word in the domain's own memory has the same result.
    assert_eq!(at_once(here.lock_pi_async(At::address_space(word), &task, &WaitOptions::new())), Err(Error::NoTask));
    drop(pending(here.lock_pi_async(object(word, 0), &task, &WaitOptions::new())));
}

fn lock_and_priority_pass_between_domains() {
    let (log, system) = Log::system(SystemConfig::new());
    let [here, there] = domains(&system);
    let [a, b, c] = [here.task(1), there.task(2), here.task(3)].map(|task| task.expect("it is free"));
    b.set_priority(Priority::realtime(20));
    c.set_priority(Priority::realtime(10));
    let [word, other] = words();
    let (lock, of_b) = (object(word, 64), object(other, 8));
    assert_eq!(here.lock_pi(lock, &a), Ok(()));
    assert_eq!(there.lock_pi(of_b, &b), Ok(()));
    assert_eq!(there.try_lock_pi(lock, &b), Err(Error::Again));
    let mut b_waits = pending(there.lock_pi_async(lock, &b, &WaitOptions::new()));
    assert_eq!(log.priorities(&[&a, &b, &c]), [20, 20, 10]);
    // A chain that spans both domains.
    assert_eq!(here.lock_pi(of_b, &a), Err(Error::Deadlock));
    let mut c_waits = pending(here.lock_pi_async(of_b, &c, &WaitOptions::new()));
    c.set_priority(Priority::realtime(30));
    assert_eq!(log.priorities(&[&a, &b, &c]), [30, 30, 30]);
    assert_eq!((here.unlock_pi(lock, &a), word.load(Relaxed)), (Ok(()), WAITERS | 2));
    assert_eq!(poll(&mut b_waits), Poll::Ready(Ok(())));
    assert_eq!(log.priorities(&[&a, &b, &c]), [0, 30, 30]);
    assert_eq!(there.unlock_pi(of_b, &b), Ok(()));
    assert_eq!((poll(&mut c_waits), other.load(Relaxed)), (Poll::Ready(Ok(())), WAITERS | 3));
    assert_eq!(log.priorities(&[&a, &b, &c]), [0, 20, 30]);
    assert_eq!(there.unlock_pi(of_b, &b), Err(Error::NotPermitted));
}

fn waiters_are_requeued_by_another_domain() {
    let (log, system) = Log::system(SystemConfig::new());
    let [here, there] = domains(&system);
    let [a, b, c] = [here.task(1), here.task(2), there.task(3)].map(|task| task.expect("it is free"));
    b.set_priority(Priority::realtime(7));
    let [from, word] = words();
    let (condition, lock) = (object(from, 0), object(word, 64));
    assert_eq!(there.lock_pi(lock, &c), Ok(()));
    let mut waits =
        [&a, &b].map(|task| pending(here.wait_requeue_pi_async(condition, 0, lock, task, &WaitOptions::new())));
    assert_eq!(there.cmp_requeue_pi(condition, 0, lock, 1), Ok(2));
    assert_eq!(log.priorities(&[&a, &b, &c]), [0, 7, 7]);
    assert_eq!(there.unlock_pi(lock, &c), Ok(()));
    assert_eq!(waits.each_mut().map(poll), [Poll::Pending, Poll::Ready(Ok(()))]);
    assert_eq!(here.unlock_pi(lock, &b), Ok(()));
    assert_eq!(poll(&mut waits[0]), Poll::Ready(Ok(())));
}

fn locks_differ_by_object_and_by_offset() {
    let (_, system) = Log::system(SystemConfig::new());
    let [here, there] = domains(&system);
    let [a, b] = [here.task(1), there.task(2)].map(|task| task.expect("it is free"));
    let [word] = words();
    assert_eq!(here.lock_pi(object(word, 64), &a), Ok(()));
    let mut waits = pending(there.lock_pi_async(object(word, 64), &b, &WaitOptions::new()));
    // No waiter is queued under this other key, so the word alone decides whether the lock is free.
    let elsewhere = At::object(word, ObjectId::new(13).expect("small enough"), 64);
    word.store(0, Relaxed);
    assert_eq!(there.try_lock_pi(object(word, 68), &b), Ok(()));
    word.store(0, Relaxed);
    assert_eq!(there.try_lock_pi(elsewhere, &b), Ok(()));
    word.store(WAITERS | 1, Relaxed);
    assert_eq!(here.unlock_pi(object(word, 64), &a), Ok(()));
    assert_eq!(poll(&mut waits), Poll::Ready(Ok(())));
}

/// A lock goes on to tasks of other domains after the owner's task and domain have been dropped, in this order or the other.
fn lock_outlives_domains_and_tasks() {
    let (_, system) = Log::system(SystemConfig::new());
    let [word] = words();
    let lock = object(word, 64);
    for round in 0..50u32 {
        let domains = [(); 3].map(|()| Domain::with_options(&system, DomainOptions::new()));
        let tid = 10 * round;
        let [a, b, c] = [0, 1, 2].map(|i| domains[i as usize].task(tid + i + 1).expect("the TID is free"));
        let [here, there, third] = domains;
        assert_eq!(here.lock_pi(lock, &a), Ok(()));
        let mut b_waits = pending(there.lock_pi_async(lock, &b, &WaitOptions::new()));
        let mut c_waits = pending(third.lock_pi_async(lock, &c, &WaitOptions::new()));
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

on_domains![
    private_lock_with_the_tid_of_another_domains_task_is_esrch,
    lock_and_priority_pass_between_domains,
    lock_outlives_domains_and_tasks,
    waiters_are_requeued_by_another_domain,
    locks_differ_by_object_and_by_offset,
];
