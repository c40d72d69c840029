//! A wait for a PI lock that is dropped or ended: while it is queued, after it has been handed the lock but not yet
//! polled, and after the owner has died and before the wait has corrected the word.

use std::sync::atomic::Ordering::Relaxed;
use std::task::Poll;

use ufutex::{
    Cause, Error, WaitOptions,
    pi::{OWNER_DIED, Priority, WAITERS},
};

use crate::common::domains::{domain, on_domains};
use crate::common::futures::{pending, pending_with, poll};
use crate::common::guest_memory::GuestMemory;
use crate::common::places::words;
use crate::common::waker::Notified;
use crate::scheduler::tasks;

const CAUSES: [(Cause, Error); 2] = [(Cause::TimedOut, Error::TimedOut), (Cause::Interrupted, Error::Interrupted)];

fn wait_dropped_before_its_first_poll_leaves_no_trace() {
    let domain = domain();
    let [owner, waiter] = tasks(&domain, [0, 5]);
    let [word] = words();
    assert_eq!(domain.lock_pi(word, &owner), Ok(()));
    drop(domain.lock_pi_async(word, &waiter, &WaitOptions::new()));
    for (cause, error) in CAUSES {
        assert_eq!(Box::pin(domain.lock_pi_async(word, &waiter, &WaitOptions::new())).as_mut().end(cause), Err(error));
    }
    assert_eq!((word.load(Relaxed), owner.priority()), (1, Priority::NORMAL));
}

fn queued_wait_that_ends_keeps_the_order_of_the_others() {
    let domain = domain();
    let tasks = tasks(&domain, [0, 5, 6, 7, 0]);
    let [word] = words();
    assert_eq!(domain.lock_pi(word, &tasks[0]), Ok(()));
    let [mut first, dropped, mut timed_out, mut interrupted] =
        [1, 2, 3, 4].map(|i| pending(domain.lock_pi_async(word, &tasks[i], &WaitOptions::new())));
    assert_eq!(tasks[0].priority(), Priority::realtime(7));
    drop(dropped);
    assert_eq!(timed_out.as_mut().end(Cause::TimedOut), Err(Error::TimedOut));
    assert_eq!(interrupted.as_mut().end(Cause::Interrupted), Err(Error::Interrupted));
    assert_eq!(tasks[0].priority(), Priority::realtime(5));
    // A task whose wait has ended may wait again.
    let mut again = pending(domain.lock_pi_async(word, &tasks[3], &WaitOptions::new()));
    assert_eq!(domain.unlock_pi(word, &tasks[0]), Ok(()));
    assert_eq!((poll(&mut again), poll(&mut first)), (Poll::Ready(Ok(())), Poll::Pending));
    drop(first);
    assert_eq!((domain.unlock_pi(word, &tasks[3]), word.load(Relaxed)), (Ok(()), 0), "no waiter is left");
}

fn wait_dropped_with_the_lock_hands_it_to_the_next() {
    let domain = domain();
    let [owner, second, third] = tasks(&domain, [0, 2, 1]);
    let [word] = words();
    assert_eq!(domain.lock_pi(word, &owner), Ok(()));
    let dropped = pending(domain.lock_pi_async(word, &second, &WaitOptions::new()));
    let (notified, waker) = Notified::new();
    let mut next = pending_with(domain.lock_pi_async(word, &third, &WaitOptions::new()), &waker);
    assert_eq!(domain.unlock_pi(word, &owner), Ok(()));
    assert_eq!((word.load(Relaxed), notified.times()), (WAITERS | 2, 0));
    drop(dropped);
    assert_eq!((word.load(Relaxed), notified.times()), (WAITERS | 3, 1));
    assert_eq!(poll(&mut next), Poll::Ready(Ok(())));
    assert_eq!(second.priority(), Priority::realtime(2));
    // Without another waiter the lock becomes free.
    let dropped = pending(domain.lock_pi_async(word, &second, &WaitOptions::new()));
    assert_eq!(domain.unlock_pi(word, &third), Ok(()));
    drop(dropped);
    assert_eq!(word.load(Relaxed), 0);
}

/// A wait that has been handed the lock, by an unlock or by the owner's death, keeps it when it is ended.
fn wait_ended_with_the_lock_keeps_it() {
    for ((cause, _), dies) in CAUSES.into_iter().flat_map(|cause| [(cause, false), (cause, true)]) {
        let domain = domain();
        let [owner, heir, third] = tasks(&domain, [0; 3]);
        let [word] = words();
        assert_eq!(domain.lock_pi(word, &owner), Ok(()));
        let mut ended = pending(domain.lock_pi_async(word, &heir, &WaitOptions::new()));
        let mut next = pending(domain.lock_pi_async(word, &third, &WaitOptions::new()));
        if dies {
            drop(owner);
        } else {
            assert_eq!(domain.unlock_pi(word, &owner), Ok(()));
        }
        assert_eq!(ended.as_mut().end(cause), Ok(()));
        drop(ended);
        let died = if dies { OWNER_DIED } else { 0 };
        assert_eq!((word.load(Relaxed), poll(&mut next)), (died | WAITERS | 2, Poll::Pending));
        assert_eq!(domain.unlock_pi(word, &heir), Ok(()));
        assert_eq!(poll(&mut next), Poll::Ready(Ok(())));
    }
}

/// The wait that takes over a dead owner's lock is dropped before it has been polled. The next waiter gets the lock.
fn wait_dropped_after_owner_death_hands_the_lock_to_the_next() {
    let domain = domain();
    let [owner, second, third, fourth] = tasks(&domain, [0, 9, 8, 7]);
    let [word] = words();
    assert_eq!(domain.lock_pi(word, &owner), Ok(()));
    let dropped = pending(domain.lock_pi_async(word, &second, &WaitOptions::new()));
    let (notified, waker) = Notified::new();
    let mut next = pending_with(domain.lock_pi_async(word, &third, &WaitOptions::new()), &waker);
    let mut last = pending(domain.lock_pi_async(word, &fourth, &WaitOptions::new()));
    drop(owner);
    assert_eq!((word.load(Relaxed), notified.times()), (WAITERS | 1, 0), "the new owner writes it when it is polled");
    drop(dropped);
    assert_eq!((word.load(Relaxed), notified.times()), (WAITERS | 1, 1));
    assert_eq!(poll(&mut last), Poll::Pending);
    assert_eq!((poll(&mut next), word.load(Relaxed)), (Poll::Ready(Ok(())), OWNER_DIED | WAITERS | 3));
    assert_eq!((domain.unlock_pi(word, &third), word.load(Relaxed)), (Ok(()), WAITERS | 4));
    assert_eq!(poll(&mut last), Poll::Ready(Ok(())));
}

/// The last of them is dropped. The lock is free, as it is if its owner unlocks it before.
fn last_wait_dropped_after_owner_death_frees_the_lock() {
    let (domain, memory) = (domain(), GuestMemory::new());
    let word = memory.target(0);
    for faults in [0, 2] {
        let [owner, heir, other] = tasks(&domain, [0; 3]);
        assert_eq!(domain.lock_pi(word, &owner), Ok(()));
        let waits = [&heir, &other].map(|task| pending(domain.lock_pi_async(word, task, &WaitOptions::new())));
        drop(owner);
        assert_eq!(memory.word(0).load(Relaxed), WAITERS | 1);
        memory.fault_next_loads(faults);
        memory.fault_next_exchanges(faults);
        drop(waits);
        assert_eq!(memory.word(0).load(Relaxed), OWNER_DIED);
        assert_eq!((domain.lock_pi(word, &other), memory.word(0).load(Relaxed)), (Ok(()), OWNER_DIED | 3));
        assert_eq!((domain.unlock_pi(word, &other), memory.word(0).load(Relaxed)), (Ok(()), 0));
    }
}

/// As above, but the word cannot be written any more. It still names the dead owner.
fn last_wait_dropped_after_owner_death_leaves_a_word_that_cannot_be_written() {
    let (domain, memory) = (domain(), GuestMemory::new());
    let [owner, heir, other] = tasks(&domain, [0; 3]);
    let word = memory.target(0);
    assert_eq!(domain.lock_pi(word, &owner), Ok(()));
    let dropped = pending(domain.lock_pi_async(word, &heir, &WaitOptions::new()));
    drop(owner);
    memory.make_read_only(true);
    drop(dropped);
    memory.make_read_only(false);
    assert_eq!(memory.word(0).load(Relaxed), WAITERS | 1);
    assert_eq!(domain.lock_pi(word, &other), Err(Error::NoTask));
    assert_eq!(heir.priority(), Priority::NORMAL, "no lock is left behind");
}

/// The word may have become unwritable when the new owner is polled. The new owner has the lock nevertheless. When it
/// dies, too, the next waiter gets the lock.
fn new_owner_that_cannot_write_the_word_still_owns_the_lock() {
    let (domain, memory) = (domain(), GuestMemory::new());
    let [owner, heir, third] = tasks(&domain, [0; 3]);
    let word = memory.target(0);
    assert_eq!(domain.lock_pi(word, &owner), Ok(()));
    let mut lock = pending(domain.lock_pi_async(word, &heir, &WaitOptions::new()));
    let mut next = pending(domain.lock_pi_async(word, &third, &WaitOptions::new()));
    drop(owner);
    third.set_priority(Priority::realtime(30));
    memory.make_read_only(true);
    assert_eq!(poll(&mut lock), Poll::Ready(Err(Error::Fault)));
    drop(lock);
    assert_eq!((poll(&mut next), heir.priority()), (Poll::Pending, Priority::realtime(30)));
    memory.make_read_only(false);
    drop(heir);
    assert_eq!(poll(&mut next), Poll::Ready(Ok(())));
    assert_eq!(memory.word(0).load(Relaxed), OWNER_DIED | WAITERS | 3);
    assert_eq!(domain.unlock_pi(word, &third), Ok(()));
}

fn faults_of_a_new_owner_are_resolved() {
    let (domain, memory) = (domain(), GuestMemory::new());
    let [owner, heir] = tasks(&domain, [0; 2]);
    let word = memory.target(0);
    assert_eq!(domain.lock_pi(word, &owner), Ok(()));
    let mut lock = pending(domain.lock_pi_async(word, &heir, &WaitOptions::new()));
    drop(owner);
    memory.fault_next_loads(2);
    memory.fault_next_exchanges(3);
    assert_eq!(poll(&mut lock), Poll::Ready(Ok(())));
    assert_eq!(memory.word(0).load(Relaxed), OWNER_DIED | WAITERS | 2);
    assert_eq!((domain.unlock_pi(word, &heir), memory.word(0).load(Relaxed)), (Ok(()), 0));
}

/// A future is leaked with `mem::forget`, and then its task ends. The wait stays queued, is handed the lock and never
/// gives it back. Nothing panics, and other locks are not affected.
fn task_may_end_after_its_wait_was_leaked() {
    let domain = domain();
    let [owner, forgetful, third] = tasks(&domain, [0, 50, 0]);
    let [word, other] = words();
    assert_eq!(domain.lock_pi(word, &owner), Ok(()));
    std::mem::forget(pending(domain.lock_pi_async(word, &forgetful, &WaitOptions::new())));
    drop(forgetful);
    let next = pending(domain.lock_pi_async(word, &third, &WaitOptions::new()));
    assert_eq!(domain.unlock_pi(word, &owner), Ok(()));
    assert_eq!(word.load(Relaxed), WAITERS | 2);
    drop(next);
    assert_eq!(domain.lock_pi(other, &third), Ok(()));
    let again = domain.task(2).expect("the TID is free");
    assert_eq!(domain.lock_pi(word, &again), Err(Error::Deadlock), "the word says that it is its lock");
}

on_domains![
    wait_dropped_after_owner_death_hands_the_lock_to_the_next,
    wait_dropped_before_its_first_poll_leaves_no_trace,
    queued_wait_that_ends_keeps_the_order_of_the_others,
    wait_dropped_with_the_lock_hands_it_to_the_next,
    wait_ended_with_the_lock_keeps_it,
    last_wait_dropped_after_owner_death_frees_the_lock,
    last_wait_dropped_after_owner_death_leaves_a_word_that_cannot_be_written,
    new_owner_that_cannot_write_the_word_still_owns_the_lock,
    faults_of_a_new_owner_are_resolved,
    task_may_end_after_its_wait_was_leaked,
];
