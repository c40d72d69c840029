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
use crate::common::places::{Word, words};
use crate::common::waker::Notified;
use crate::scheduler::{Log, tasks};

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
    exit_passes_on_more_locks_than_fit_into_one_batch,
    new_owner_inherits_the_priorities_of_the_waiters,
    calls_between_owner_death_and_the_poll_of_the_new_owner,
    tid_that_is_used_again_survives_the_drop_of_its_former_task,
];
