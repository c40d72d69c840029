//! The end of a task that owns locks.

use std::sync::atomic::Ordering::Relaxed;
use std::task::Poll;

use ufutex::syscall::Number;
use ufutex::{
    Error, WaitOptions,
    pi::{OWNER_DIED, Priority, WAITERS},
};

use crate::common::domains::{domain, on_domains};
use crate::common::futures::{at_once, pending, pending_with, poll};
use crate::common::guest_memory::GuestMemory;
use crate::common::places::{Word, lasting_domain, lasting_task, words};
use crate::common::sleeping::Sleeping;
use crate::common::waker::Notified;
use crate::scheduler::{Log, tasks};

fn first_waiter_gets_the_lock_with_owner_died_set() {
    let domain = lasting_domain();
    let owner = domain.task(1).expect("it is free");
    let [thread_task, low] = [2, 3].map(|tid| lasting_task(domain, tid));
    thread_task.set_priority(Priority::realtime(4));
    let [word]: [Word; 1] = words();
    assert_eq!(domain.lock_pi(word, &owner), Ok(()));
    let (notified, waker) = Notified::new();
    let mut future = pending_with(domain.lock_pi_async(word, low, &WaitOptions::new()), &waker);
    let thread = Sleeping::new(move || domain.lock_pi(word, thread_task));
    drop(owner);
    assert_eq!(thread.outcome(), Ok(()));
    assert_eq!((word.load(Relaxed), notified.times()), (OWNER_DIED | WAITERS | 2, 0));
    assert_eq!((domain.unlock_pi(word, thread_task), notified.times()), (Ok(()), 1));
    assert_eq!((poll(&mut future), word.load(Relaxed)), (Poll::Ready(Ok(())), WAITERS | 3));
}

fn exit_passes_on_more_locks_than_fit_into_one_batch() {
    let domain = domain();
    let owner = domain.task(100).expect("it is free");
    let waiters: Vec<_> = (1..=40).map(|tid| domain.task(tid).expect("it is free")).collect();
    let locks: [Word; 40] = words();
    let notified: Vec<_> = (0..40).map(|_| Notified::new()).collect();
    for word in locks {
        assert_eq!(domain.lock_pi(word, &owner), Ok(()));
    }
    let mut waits: Vec<_> = (0..40)
        .map(|i| pending_with(domain.lock_pi_async(locks[i], &waiters[i], &WaitOptions::new()), &notified[i].1))
        .collect();
    drop(owner);
    for (i, wait) in waits.iter_mut().enumerate() {
        assert_eq!((poll(wait), notified[i].0.times()), (Poll::Ready(Ok(())), 1), "lock {i}");
        assert_eq!(locks[i].load(Relaxed), OWNER_DIED | WAITERS | (i as u32 + 1));
    }
}

fn new_owner_inherits_the_priorities_of_the_waiters() {
    let (log, domain) = Log::domain();
    let [owner, heir, low, high] = tasks(&domain, [0, 5, 1, 9]);
    let [word, other] = words();
    assert_eq!(domain.lock_pi(word, &owner), Ok(()));
    assert_eq!(domain.lock_pi(other, &heir), Ok(()));
    let lender = pending(domain.lock_pi_async(other, &high, &WaitOptions::new()));
    let mut inherits = pending(domain.lock_pi_async(word, &heir, &WaitOptions::new()));
    let waits = pending(domain.lock_pi_async(word, &low, &WaitOptions::new()));
    assert_eq!(log.priorities(&[&owner, &heir, &low, &high]), [9, 9, 1, 9]);
    drop(owner);
    assert_eq!(poll(&mut inherits), Poll::Ready(Ok(())));
    drop(lender);
    assert_eq!(log.priorities(&[&heir, &low, &high]), [5, 1, 9]);
    heir.set_priority(Priority::NORMAL);
    assert_eq!(log.priorities(&[&heir, &low, &high]), [1, 1, 9], "by the other waiter");
    drop(waits);
    assert_eq!(log.priorities(&[&heir, &low, &high]), [0, 1, 9]);
}

/// [S7] and [S4]: other tasks call after the owner's death and before the new owner has been polled.
fn calls_between_owner_death_and_the_poll_of_the_new_owner() {
    let domain = domain();
    let [owner, heir, third] = tasks(&domain, [0; 3]);
    let [word] = words();
    assert_eq!(domain.lock_pi(word, &owner), Ok(()));
    let mut inherits = pending(domain.lock_pi_async(word, &heir, &WaitOptions::new()));
    drop(owner);
    // The word still holds the dead owner's TID.
    assert_eq!(at_once(domain.lock_pi_async(word, &third, &WaitOptions::new())), Err(Error::Invalid));
    assert_eq!(domain.try_lock_pi(word, &third), Err(Error::Invalid));
    assert_eq!(domain.unlock_pi(word, &heir), Err(Error::NotPermitted));
    // A walk of the robust list would have stored this value.
    word.store(OWNER_DIED | WAITERS, Relaxed);
    assert_eq!(domain.try_lock_pi(word, &third), Err(Error::Again));
    let mut waits = pending(domain.lock_pi_async(word, &third, &WaitOptions::new()));
    assert_eq!(poll(&mut inherits), Poll::Ready(Ok(())));
    assert_eq!(word.load(Relaxed), OWNER_DIED | WAITERS | 2);
    assert_eq!(domain.unlock_pi(word, &heir), Ok(()));
    assert_eq!(poll(&mut waits), Poll::Ready(Ok(())));
}

/// Each new owner in turn drops its wait before it has been polled. The last waiter gets the lock.
fn new_owners_may_be_dropped_one_after_the_other() {
    let domain = domain();
    let mut all = (1..=20).map(|tid| domain.task(tid).expect("it is free"));
    let [word] = words();
    let owner = all.next().expect("there are twenty");
    let waiters: Vec<_> = all.collect();
    assert_eq!(domain.lock_pi(word, &owner), Ok(()));
    let mut waits: Vec<_> =
        waiters.iter().map(|task| pending(domain.lock_pi_async(word, task, &WaitOptions::new()))).collect();
    drop(owner);
    let mut last = waits.pop().expect("there are many");
    drop(waits);
    assert_eq!((poll(&mut last), word.load(Relaxed)), (Poll::Ready(Ok(())), OWNER_DIED | WAITERS | 20));
}

fn exit_leaves_uncontended_locks_unchanged() {
    let domain = domain();
    let [owner, other] = tasks(&domain, [0; 2]);
    let [word] = words();
    assert_eq!(domain.lock_pi(word, &owner), Ok(()));
    drop(pending(domain.lock_pi_async(word, &other, &WaitOptions::new())));
    drop(owner);
    assert_eq!(word.load(Relaxed), WAITERS | 1);
    assert_eq!(domain.lock_pi(word, &other), Err(Error::NoTask));
    let again = domain.task(1).expect("it is free again");
    let waits = pending(domain.lock_pi_async(word, &other, &WaitOptions::new()));
    assert_eq!(domain.unlock_pi(word, &again), Ok(()), "the word says that it is its lock");
    drop(waits);
    assert_eq!(word.load(Relaxed), 0);
}

fn tid_that_is_used_again_survives_the_drop_of_its_former_task() {
    let (domain, memory) = (domain(), GuestMemory::new());
    let [first, other] = [7, 8].map(|tid| domain.task(tid).expect("it is free"));
    assert_eq!(domain.exit(&first, &memory), Ok(()));
    let again = domain.task(7).expect("it is free again");
    drop(first);
    assert_eq!(domain.task(7).err(), Some(Error::Busy));
    let [head, length] = [0, 8].map(|offset| memory.at(offset));
    let get = Number::i386(312).expect("get_robust_list(2)");
    assert_eq!(domain.syscall(&other, &memory, get, [7, head, length, 0, 0, 0]), 0);
    let [word] = words();
    assert_eq!(domain.lock_pi(word, &again), Ok(()));
    drop(pending(domain.lock_pi_async(word, &other, &WaitOptions::new())));
    assert_eq!(domain.unlock_pi(word, &again), Ok(()));
}

on_domains![
    first_waiter_gets_the_lock_with_owner_died_set,
    exit_passes_on_more_locks_than_fit_into_one_batch,
    new_owner_inherits_the_priorities_of_the_waiters,
    calls_between_owner_death_and_the_poll_of_the_new_owner,
    new_owners_may_be_dropped_one_after_the_other,
    exit_leaves_uncontended_locks_unchanged,
    tid_that_is_used_again_survives_the_drop_of_its_former_task,
];
