//! `wait_requeue_pi` and `cmp_requeue_pi`.

use std::sync::atomic::Ordering::Relaxed;
use std::task::Poll;

use ufutex::{
    Cause, Domain, Error, WaitOptions,
    pi::{OWNER_DIED, Priority, WAITERS},
};

use crate::common::domains::{domain, on_domains};
use crate::common::futures::{Boxed, at_once, pending, pending_with, poll};
use crate::common::guest_memory::GuestMemory;
use crate::common::places::{Word, pairs, words};
use crate::common::waker::Notified;
use crate::scheduler::tasks;

type Waiting<'d, 't> = Boxed<ufutex::pi::WaitRequeuePi<'d, 't, Word, Word>>;

fn waiting<'d, 't>(domain: &'d Domain, [condition, lock]: [Word; 2], task: &'t ufutex::Task) -> Waiting<'d, 't> {
    pending(domain.wait_requeue_pi_async(condition, 0, lock, task, &WaitOptions::new()))
}

fn waker_is_woken_by_the_hand_over_and_not_by_the_requeue() {
    let domain = domain();
    let [owner, task] = tasks(&domain, [0; 2]);
    for [condition, lock] in pairs() {
        let [(first, first_waker), (second, second_waker), (third, third_waker)] = [(); 3].map(|()| Notified::new());
        assert_eq!(domain.lock_pi(lock, &owner), Ok(()));
        let mut wait =
            pending_with(domain.wait_requeue_pi_async(condition, 0, lock, &task, &WaitOptions::new()), &first_waker);
        assert!(crate::common::futures::poll_with(&mut wait, &second_waker).is_pending());
        assert_eq!(domain.cmp_requeue_pi(condition, 0, lock, 0), Ok(1));
        assert!(crate::common::futures::poll_with(&mut wait, &third_waker).is_pending());
        assert_eq!(domain.unlock_pi(lock, &owner), Ok(()));
        assert_eq!([first, second, third].map(|notified| notified.times()), [0, 0, 1]);
        assert_eq!(poll(&mut wait), Poll::Ready(Ok(())));
        assert_eq!(domain.unlock_pi(lock, &task), Ok(()));
    }
}

fn wait_ended_before_its_first_poll_was_not_requeued() {
    let domain = domain();
    let [task] = tasks(&domain, [0]);
    let [condition, lock] = words();
    for (cause, error) in [(Cause::TimedOut, Error::TimedOut), (Cause::Interrupted, Error::Interrupted)] {
        let mut wait = Box::pin(domain.wait_requeue_pi_async(condition, 0, lock, &task, &WaitOptions::new()));
        assert_eq!(wait.as_mut().end(cause), Err(error));
    }
}

fn dropped_wait_leaves_the_queue_or_passes_the_lock_on() {
    let domain = domain();
    let [owner, task, next] = tasks(&domain, [0, 5, 0]);
    for words in pairs() {
        let [condition, lock] = words;
        drop(waiting(&domain, words, &task));
        assert_eq!(domain.cmp_requeue_pi(condition, 0, lock, 1), Ok(0));
        // Dropped after the requeue.
        assert_eq!(domain.lock_pi(lock, &owner), Ok(()));
        let dropped = waiting(&domain, words, &task);
        let mut stays = waiting(&domain, words, &next);
        assert_eq!(domain.cmp_requeue_pi(condition, 0, lock, 1), Ok(2));
        drop(dropped);
        assert_eq!(owner.priority(), Priority::NORMAL);
        assert_eq!(domain.unlock_pi(lock, &owner), Ok(()));
        assert_eq!((poll(&mut stays), lock.load(Relaxed)), (Poll::Ready(Ok(())), WAITERS | 3));
        assert_eq!((domain.unlock_pi(lock, &next), lock.load(Relaxed)), (Ok(()), 0));
        // Dropped after the requeue itself has handed it the lock.
        let dropped = waiting(&domain, words, &task);
        let mut stays = waiting(&domain, words, &next);
        assert_eq!(domain.cmp_requeue_pi(condition, 0, lock, 1), Ok(2));
        assert_eq!(lock.load(Relaxed), WAITERS | 2);
        drop(dropped);
        assert_eq!((poll(&mut stays), lock.load(Relaxed)), (Poll::Ready(Ok(())), WAITERS | 3));
        assert_eq!(domain.unlock_pi(lock, &next), Ok(()));
    }
    // Dropped after the owner's death has made it the new owner.
    let [condition, lock] = words();
    assert_eq!(domain.lock_pi(lock, &owner), Ok(()));
    let dropped = waiting(&domain, [condition, lock], &task);
    let mut stays = waiting(&domain, [condition, lock], &next);
    assert_eq!(domain.cmp_requeue_pi(condition, 0, lock, 1), Ok(2));
    drop(owner);
    drop(dropped);
    assert_eq!((poll(&mut stays), lock.load(Relaxed)), (Poll::Ready(Ok(())), OWNER_DIED | WAITERS | 3));
}

fn faults_of_both_words() {
    let (domain, memory) = (domain(), GuestMemory::new());
    let [owner, task] = tasks(&domain, [0; 2]);
    let (condition, lock) = (memory.target(0), memory.target(256));
    memory.fault_next_loads(3);
    let mut wait = pending(domain.wait_requeue_pi_async(condition, 0, lock, &task, &WaitOptions::new()));
    memory.fault_next_loads(3);
    memory.fault_next_exchanges(2);
    assert_eq!(domain.cmp_requeue_pi(condition, 0, lock, 3), Ok(1), "counted once");
    assert_eq!(poll(&mut wait), Poll::Ready(Ok(())));
    assert_eq!(domain.unlock_pi(lock, &task), Ok(()));
    memory.lose();
    assert_eq!(
        at_once(domain.wait_requeue_pi_async(condition, 0, lock, &task, &WaitOptions::new())),
        Err(Error::Fault)
    );
    assert_eq!(domain.cmp_requeue_pi(condition, 0, lock, 3), Err(Error::Fault));
    memory.restore();
    // The lock has an owner and cannot be written: all waiters stay on the condition.
    assert_eq!(domain.lock_pi(lock, &owner), Ok(()));
    let mut wait = pending(domain.wait_requeue_pi_async(condition, 0, lock, &task, &WaitOptions::new()));
    memory.make_read_only(true);
    assert_eq!(domain.cmp_requeue_pi(condition, 0, lock, 3), Err(Error::Fault));
    memory.make_read_only(false);
    assert_eq!(wait.as_mut().end(Cause::Interrupted), Err(Error::Interrupted), "not requeued");
    // The lock's word is read even if the condition has no waiters.
    memory.fault_loads_of(256);
    memory.lose();
    let [elsewhere] = words();
    assert_eq!(domain.cmp_requeue_pi(elsewhere, 0, lock, 1), Err(Error::Fault));
}

fn value_that_the_word_cannot_hold() {
    let (domain, memory) = (domain(), GuestMemory::new());
    let [from, lock] = [0, 64].map(|offset| memory.target(offset));
    assert_eq!(domain.cmp_requeue_pi(from, 1 << 32, lock, 1), Err(Error::Invalid));
    assert_eq!(domain.cmp_requeue_pi(from, 1, lock, 1), Err(Error::Again));
}

on_domains![
    waker_is_woken_by_the_hand_over_and_not_by_the_requeue,
    wait_ended_before_its_first_poll_was_not_requeued,
    dropped_wait_leaves_the_queue_or_passes_the_lock_on,
    faults_of_both_words,
    value_that_the_word_cannot_hold,
];
