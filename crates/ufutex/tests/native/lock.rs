//! PI locks: ownership and errors.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::task::Poll;

use ufutex::{
    Domain, DomainOptions, Error, Requeue, System, Target, Task, WaitOptions,
    pi::{OWNER_DIED, WAITERS},
};

use crate::common::domains::{domain, on_domains, system};
use crate::common::futures::{at_once, pending, poll};
use crate::common::guest_memory::{Event, GuestMemory};
use crate::common::places::{Word, lasting_domain, lasting_task, words};
use crate::common::sleeping::Sleeping;
use crate::scheduler::tasks;

fn owner_hands_the_lock_to_waiters_of_every_kind_in_their_order() {
    let domain: &'static Domain = lasting_domain();
    let [owner, of_thread, of_future, last] = [1, 2, 3, 4].map(|tid| lasting_task(domain, tid));
    let [word]: [Word; 1] = words();
    assert_eq!(domain.lock_pi(word, owner), Ok(()));
    let thread = Sleeping::new(move || domain.lock_pi(word, of_thread));
    let mut future = pending(domain.lock_pi_async(word, of_future, &WaitOptions::new()));
    let thread_again = Sleeping::new(move || domain.lock_pi(word, last));
    assert_eq!(word.load(Relaxed), WAITERS | 1);
    assert_eq!((domain.unlock_pi(word, owner), word.load(Relaxed)), (Ok(()), WAITERS | 2));
    assert_eq!((thread.outcome(), poll(&mut future)), (Ok(()), Poll::Pending));
    assert_eq!(domain.unlock_pi(word, owner), Err(Error::NotPermitted));
    assert_eq!(domain.unlock_pi(word, of_thread), Ok(()));
    assert!(thread_again.is_asleep());
    assert_eq!((poll(&mut future), word.load(Relaxed)), (Poll::Ready(Ok(())), WAITERS | 3));
    assert_eq!(domain.unlock_pi(word, of_future), Ok(()));
    assert_eq!((thread_again.outcome(), word.load(Relaxed)), (Ok(()), WAITERS | 4));
    assert_eq!((domain.unlock_pi(word, last), word.load(Relaxed)), (Ok(()), 0));
}

fn plain_wakes_do_not_reach_waiters_of_a_lock() {
    let domain = domain();
    let [owner, waiter] = tasks(&domain, [0; 2]);
    let [word] = words();
    assert_eq!(domain.lock_pi(word, &owner), Ok(()));
    let mut lock = pending(domain.lock_pi_async(word, &waiter, &WaitOptions::new()));
    assert_eq!(domain.wake(word, usize::MAX), 0);
    let all = crate::common::waiters::nonzero(u32::MAX);
    assert_eq!(domain.try_wake_bitset(word, usize::MAX, all), Err(Error::Invalid));
    assert_eq!(domain.requeue(word, words::<1>()[0], Requeue { wake: 0, requeue: 1 }), Err(Error::Invalid));
    assert_eq!(poll(&mut lock), Poll::Pending);
    assert_eq!(domain.unlock_pi(word, &owner), Ok(()));
    assert_eq!(poll(&mut lock), Poll::Ready(Ok(())));
}

fn task_waits_in_one_place_at_a_time() {
    let domain: &'static Domain = lasting_domain();
    let [owner, waiter] = [1, 2].map(|tid| lasting_task(domain, tid));
    let [first, second]: [Word; 2] = words();
    assert_eq!(domain.lock_pi(first, owner), Ok(()));
    assert_eq!(domain.lock_pi(second, owner), Ok(()));
    let mut lock = pending(domain.lock_pi_async(first, waiter, &WaitOptions::new()));
    assert_eq!(at_once(domain.lock_pi_async(second, waiter, &WaitOptions::new())), Err(Error::Busy));
    assert_eq!(at_once(domain.lock_pi_async(first, waiter, &WaitOptions::new())), Err(Error::Busy));
    assert_eq!(domain.lock_pi(second, waiter), Err(Error::Busy));
    assert_eq!((domain.unlock_pi(second, owner), second.load(Relaxed)), (Ok(()), 0));
    assert_eq!(domain.unlock_pi(first, owner), Ok(()));
    assert_eq!(poll(&mut lock), Poll::Ready(Ok(())));
    drop(lock);
    // Synchronous calls return the same error.
    assert_eq!(domain.lock_pi(second, owner), Ok(()));
    let thread = Sleeping::new(move || domain.lock_pi(second, waiter));
    assert_eq!(domain.wait_requeue_pi(words::<1>()[0], 0, second, waiter, &WaitOptions::new()), Err(Error::Busy));
    assert_eq!(domain.unlock_pi(second, owner), Ok(()));
    assert_eq!(thread.outcome(), Ok(()));
}

/// Checks that every PI operation refuses a task of another domain.
fn refuse<T: Target<Value: From<u8>> + Copy>(domain: &Domain, word: T, task: &Task) {
    let [condition] = words();
    assert_eq!(domain.lock_pi(word, task), Err(Error::Invalid));
    assert_eq!(at_once(domain.lock_pi_async(word, task, &WaitOptions::new())), Err(Error::Invalid));
    assert_eq!(domain.try_lock_pi(word, task), Err(Error::Invalid));
    assert_eq!(domain.unlock_pi(word, task), Err(Error::Invalid));
    assert_eq!(domain.wait_requeue_pi(condition, 0, word, task, &WaitOptions::new()), Err(Error::Invalid));
    assert_eq!(
        at_once(domain.wait_requeue_pi_async(condition, 0, word, task, &WaitOptions::new())),
        Err(Error::Invalid)
    );
    assert!(word.load() == Ok(0.into()));
}

fn task_of_another_domain_or_system_is_invalid() {
    let system: System = system();
    let [domain, other] = [(); 2].map(|()| Domain::with_options(&system, DomainOptions::new()));
    let stranger = crate::common::domains::domain();
    let [word] = words();
    refuse(&domain, word, &other.task(5).expect("it is free"));
    refuse(&domain, word, &stranger.task(5).expect("it is free"));
}

fn word_of_another_width_is_invalid() {
    let domain = domain();
    refuse(&domain, &AtomicU64::new(0), &domain.task(5).expect("it is free"));
    refuse(&domain, &std::sync::atomic::AtomicU16::new(0), &domain.task(6).expect("it is free"));
}

fn tid_is_of_one_living_task_and_fits_the_word() {
    let system: System = system();
    let [domain, other] = [(); 2].map(|()| Domain::with_options(&system, DomainOptions::new()));
    for tid in [0, 1 << 30, WAITERS | 1, u32::MAX] {
        assert_eq!(domain.task(tid).err(), Some(Error::Invalid));
        assert_eq!(domain.kernel_task(tid).err(), Some(Error::Invalid));
    }
    let task = domain.task((1 << 30) - 1).expect("it is free");
    assert_eq!(other.task(task.tid()).err(), Some(Error::Busy));
    assert_eq!(domain.kernel_task(task.tid()).err(), Some(Error::Busy));
    let tid = task.tid();
    drop(task);
    assert_eq!(other.task(tid).map(|task| task.tid()), Ok(tid));
    // A kernel task never owns a lock. After it has been dropped its TID belongs to no task.
    let ([word], task) = (words(), domain.task(1).expect("the TID is free"));
    let kernels = domain.kernel_task(9).expect("the TID is free");
    word.store(9, Relaxed);
    assert_eq!(domain.lock_pi(word, &task), Err(Error::NotPermitted));
    drop(kernels);
    assert_eq!(domain.lock_pi(word, &task), Err(Error::NoTask));
}

fn faults_of_the_lock_are_resolved() {
    for (reads, writes) in [(1, 0), (0, 1), (3, 2), (0, 400)] {
        let (domain, memory) = (domain(), GuestMemory::new());
        let [owner, waiter] = tasks(&domain, [0; 2]);
        let word = memory.target(0);
        let fault = || {
            memory.fault_next_loads(reads);
            memory.fault_next_exchanges(writes);
        };
        fault();
        assert_eq!(domain.lock_pi(word, &owner), Ok(()));
        fault();
        assert_eq!(domain.try_lock_pi(word, &waiter), Err(Error::Again));
        fault();
        let mut lock = pending(domain.lock_pi_async(word, &waiter, &WaitOptions::new()));
        fault();
        assert_eq!(domain.unlock_pi(word, &owner), Ok(()));
        assert_eq!(poll(&mut lock), Poll::Ready(Ok(())));
        fault();
        assert_eq!(domain.unlock_pi(word, &waiter), Ok(()));
        fault();
        assert_eq!(domain.try_lock_pi(word, &owner), Ok(()));
        assert!(memory.faulted_in().iter().all(|&(at, _)| at == memory.at(0)));
    }
}

/// A guest may write to a lock's word while one of its threads unlocks it: `before`, and `meanwhile` when the unlock
/// has read that. Returns what the unlock does, and the word after it.
fn unlock_while_a_guest_writes(before: u32, meanwhile: u32) -> (Result<(), Error>, u32) {
    let (domain, memory, writes) = (domain(), GuestMemory::new(), AtomicBool::new(true));
    let [owner, waiter] = tasks(&domain, [0; 2]);
    let word = memory.target(0);
    assert_eq!(domain.lock_pi(word, &owner), Ok(()));
    let mut lock = pending(domain.lock_pi_async(word, &waiter, &WaitOptions::new()));
    let changing = GuestMemory::of_words(&memory, |event, _| {
        if event == Event::CompareExchange && writes.swap(false, Relaxed) {
            memory.word(0).store(meanwhile, Relaxed);
        }
        Ok(())
    });
    memory.word(0).store(before, Relaxed);
    let result = domain.unlock_pi(changing.target(0), &owner);
    let after = memory.word(0).load(Relaxed);
    if result.is_err() {
        assert_eq!(poll(&mut lock), Poll::Pending);
        memory.word(0).store(WAITERS | 1, Relaxed);
        assert_eq!(domain.unlock_pi(word, &owner), Ok(()));
    }
    assert_eq!((poll(&mut lock), memory.word(0).load(Relaxed)), (Poll::Ready(Ok(())), WAITERS | 2));
    (result, after)
}

fn word_that_changes_during_an_unlock_is_invalid_and_its_waiter_stays() {
    for meanwhile in [0, 1, WAITERS, WAITERS | 2, WAITERS | 99, WAITERS | OWNER_DIED | 1] {
        assert_eq!(unlock_while_a_guest_writes(WAITERS | 1, meanwhile), (Err(Error::Invalid), meanwhile));
    }
    assert_eq!(unlock_while_a_guest_writes(1, 2), (Err(Error::Invalid), 2));
}

fn word_that_gets_a_bit_during_an_unlock_is_handed_over() {
    for meanwhile in [WAITERS | 1, OWNER_DIED | 1] {
        assert_eq!(unlock_while_a_guest_writes(1, meanwhile), (Ok(()), WAITERS | 2));
    }
}

on_domains![
    owner_hands_the_lock_to_waiters_of_every_kind_in_their_order,
    plain_wakes_do_not_reach_waiters_of_a_lock,
    task_waits_in_one_place_at_a_time,
    task_of_another_domain_or_system_is_invalid,
    word_of_another_width_is_invalid,
    tid_is_of_one_living_task_and_fits_the_word,
    faults_of_the_lock_are_resolved,
    word_that_changes_during_an_unlock_is_invalid_and_its_waiter_stays,
    word_that_gets_a_bit_during_an_unlock_is_handed_over,
];
