//! A wait for a lock that is dropped or ended: while it is queued, when it has the lock and nobody has looked, when the
//! owner has died and it has to put the word right.

use std::sync::atomic::Ordering::Relaxed;
use std::task::Poll;

use ufutex::layout::Layout;
use ufutex::scheme::Scheme;
use ufutex::{Cause, Error, OWNER_DIED, Priority, WAITERS};

use crate::common::domains::{domain, on_every_scheme};
use crate::common::waker::Told;
use crate::futures::{pending, pending_with, poll};
use crate::memory::Memory;
use crate::places::{Word, lasting_domain, lasting_task, words};
use crate::scheduler::tasks;
use crate::sleeping::Sleeping;

const CAUSES: [(Cause, Error); 2] = [(Cause::TimedOut, Error::TimedOut), (Cause::Interrupted, Error::Interrupted)];

fn dropped_before_its_first_poll_it_was_never_there<S: Scheme<L>, L: Layout>() {
    let domain = domain::<S, L>();
    let [owner, waiter] = tasks(&domain, [0, 5]);
    let [word] = words();
    assert_eq!(domain.lock_pi(word, &owner, None), Ok(()));
    drop(domain.lock_pi_async(word, &waiter));
    for (cause, error) in CAUSES {
        assert_eq!(Box::pin(domain.lock_pi_async(word, &waiter)).as_mut().end(cause), Err(error));
    }
    assert_eq!((word.load(Relaxed), owner.priority()), (1, Priority::NORMAL));
}

fn queued_it_leaves_the_queue_and_the_others_in_order<S: Scheme<L>, L: Layout>() {
    let domain = domain::<S, L>();
    let tasks = tasks(&domain, [0, 5, 6, 7, 0]);
    let [word] = words();
    assert_eq!(domain.lock_pi(word, &tasks[0], None), Ok(()));
    let [mut first, dropped, mut timed_out, mut interrupted] =
        [1, 2, 3, 4].map(|i| pending(domain.lock_pi_async(word, &tasks[i])));
    assert_eq!(tasks[0].priority(), Priority::realtime(7));
    drop(dropped);
    assert_eq!(timed_out.as_mut().end(Cause::TimedOut), Err(Error::TimedOut));
    assert_eq!(interrupted.as_mut().end(Cause::Interrupted), Err(Error::Interrupted));
    assert_eq!(tasks[0].priority(), Priority::realtime(5));
    // Those who left may wait again.
    let mut again = pending(domain.lock_pi_async(word, &tasks[3]));
    assert_eq!(domain.unlock_pi(word, &tasks[0]), Ok(()));
    assert_eq!((poll(&mut again), poll(&mut first)), (Poll::Ready(Ok(())), Poll::Pending));
    drop(first);
    assert_eq!((domain.unlock_pi(word, &tasks[3]), word.load(Relaxed)), (Ok(()), 0), "nobody waits");
}

fn dropped_with_the_lock_it_hands_it_to_the_next<S: Scheme<L>, L: Layout>() {
    let domain = domain::<S, L>();
    let [owner, second, third] = tasks(&domain, [0, 2, 1]);
    let [word] = words();
    assert_eq!(domain.lock_pi(word, &owner, None), Ok(()));
    let dropped = pending(domain.lock_pi_async(word, &second));
    let (told, waker) = Told::new();
    let mut next = pending_with(domain.lock_pi_async(word, &third), &waker);
    assert_eq!(domain.unlock_pi(word, &owner), Ok(()));
    assert_eq!((word.load(Relaxed), told.times()), (WAITERS | 2, 0));
    drop(dropped);
    assert_eq!((word.load(Relaxed), told.times()), (WAITERS | 3, 1));
    assert_eq!(poll(&mut next), Poll::Ready(Ok(())));
    assert_eq!(second.priority(), Priority::realtime(2));
    // And with nobody to hand it to, it is free.
    let dropped = pending(domain.lock_pi_async(word, &second));
    assert_eq!(domain.unlock_pi(word, &third), Ok(()));
    drop(dropped);
    assert_eq!(word.load(Relaxed), 0);
}

fn lock_goes_down_a_row_of_dropped_futures_to_a_thread<S: Scheme<L>, L: Layout>() {
    let domain = lasting_domain::<S, L>();
    let tasks = [1, 2, 3, 4, 5].map(|tid| lasting_task(domain, tid));
    let [word]: [Word; 1] = words();
    assert_eq!(domain.lock_pi(word, tasks[0], None), Ok(()));
    let row: Vec<_> = (1..4).map(|i| pending(domain.lock_pi_async(word, tasks[i]))).collect();
    let thread = Sleeping::new(move || domain.lock_pi(word, tasks[4], None));
    assert_eq!(domain.unlock_pi(word, tasks[0]), Ok(()));
    drop(row);
    assert_eq!((thread.outcome(), word.load(Relaxed)), (Ok(()), WAITERS | 5));
}

fn ended_with_the_lock_it_keeps_it<S: Scheme<L>, L: Layout>() {
    for (cause, _) in CAUSES {
        let domain = domain::<S, L>();
        let [owner, second, third] = tasks(&domain, [0; 3]);
        let [word] = words();
        assert_eq!(domain.lock_pi(word, &owner, None), Ok(()));
        let mut ended = pending(domain.lock_pi_async(word, &second));
        let mut next = pending(domain.lock_pi_async(word, &third));
        assert_eq!(domain.unlock_pi(word, &owner), Ok(()));
        assert_eq!(ended.as_mut().end(cause), Ok(()));
        drop(ended);
        assert_eq!((word.load(Relaxed), poll(&mut next)), (WAITERS | 2, Poll::Pending));
        assert_eq!(domain.unlock_pi(word, &second), Ok(()));
        assert_eq!(poll(&mut next), Poll::Ready(Ok(())));
    }
}

/// The heir of a dead owner's lock, dropped before it has looked: the next waiter is the heir.
fn dropped_as_heir_it_leaves_the_lock_to_the_next<S: Scheme<L>, L: Layout>() {
    let domain = domain::<S, L>();
    let [owner, second, third, fourth] = tasks(&domain, [0, 9, 8, 7]);
    let [word] = words();
    assert_eq!(domain.lock_pi(word, &owner, None), Ok(()));
    let dropped = pending(domain.lock_pi_async(word, &second));
    let (told, waker) = Told::new();
    let mut next = pending_with(domain.lock_pi_async(word, &third), &waker);
    let mut last = pending(domain.lock_pi_async(word, &fourth));
    drop(owner);
    assert_eq!((word.load(Relaxed), told.times()), (WAITERS | 1, 0), "the heir writes it when it looks");
    drop(dropped);
    assert_eq!((word.load(Relaxed), told.times()), (WAITERS | 1, 1));
    assert_eq!(poll(&mut last), Poll::Pending);
    assert_eq!((poll(&mut next), word.load(Relaxed)), (Poll::Ready(Ok(())), OWNER_DIED | WAITERS | 3));
    assert_eq!((domain.unlock_pi(word, &third), word.load(Relaxed)), (Ok(()), WAITERS | 4));
    assert_eq!(poll(&mut last), Poll::Ready(Ok(())));
}

fn last_heir_that_is_dropped_leaves_a_lock_of_the_dead<S: Scheme<L>, L: Layout>() {
    let domain = domain::<S, L>();
    let [owner, heir, other] = tasks(&domain, [0; 3]);
    let [word] = words();
    assert_eq!(domain.lock_pi(word, &owner, None), Ok(()));
    let dropped = pending(domain.lock_pi_async(word, &heir));
    drop(owner);
    drop(dropped);
    assert_eq!(domain.lock_pi(word, &other, None), Err(Error::NoTask));
    // A robust list would have said so in the word.
    word.store(OWNER_DIED | WAITERS, Relaxed);
    assert_eq!(domain.lock_pi(word, &other, None), Ok(()));
    drop(heir);
}

fn ended_as_heir_it_puts_the_word_right_and_has_the_lock<S: Scheme<L>, L: Layout>() {
    for (cause, _) in CAUSES {
        let domain = domain::<S, L>();
        let [owner, heir, third] = tasks(&domain, [0; 3]);
        let [word] = words();
        assert_eq!(domain.lock_pi(word, &owner, None), Ok(()));
        let mut ended = pending(domain.lock_pi_async(word, &heir));
        let mut next = pending(domain.lock_pi_async(word, &third));
        drop(owner);
        assert_eq!(ended.as_mut().end(cause), Ok(()));
        assert_eq!(word.load(Relaxed), OWNER_DIED | WAITERS | 2);
        assert_eq!(domain.unlock_pi(word, &heir), Ok(()));
        assert_eq!(poll(&mut next), Poll::Ready(Ok(())));
    }
}

/// A lock's word may be gone by the time its heir looks. The heir has the lock all the same; when it dies, too, the next
/// waiter is its heir.
fn heir_that_cannot_write_the_word_is_the_owner<S: Scheme<L>, L: Layout>() {
    let (domain, memory) = (domain::<S, L>(), Memory::new());
    let [owner, heir, third] = tasks(&domain, [0; 3]);
    let word = memory.target(0);
    assert_eq!(domain.lock_pi(word, &owner, None), Ok(()));
    let mut lock = pending(domain.lock_pi_async(word, &heir));
    let mut next = pending(domain.lock_pi_async(word, &third));
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

fn faults_of_an_heir_are_cured<S: Scheme<L>, L: Layout>() {
    let (domain, memory) = (domain::<S, L>(), Memory::new());
    let [owner, heir] = tasks(&domain, [0; 2]);
    let word = memory.target(0);
    assert_eq!(domain.lock_pi(word, &owner, None), Ok(()));
    let mut lock = pending(domain.lock_pi_async(word, &heir));
    drop(owner);
    memory.fault_next_reads(2);
    memory.fault_next_writes(3);
    assert_eq!(poll(&mut lock), Poll::Ready(Ok(())));
    assert_eq!(memory.word(0).load(Relaxed), OWNER_DIED | WAITERS | 2);
    assert_eq!((domain.unlock_pi(word, &heir), memory.word(0).load(Relaxed)), (Ok(()), 0));
}

/// A future whose memory is never given back, and then its task ends: a thread that never runs again. What it waits for
/// is handed to it all the same, and neither its TID nor its place is mistaken for another's.
fn task_may_end_though_its_wait_was_forgotten<S: Scheme<L>, L: Layout>() {
    let domain = domain::<S, L>();
    let [owner, forgetful] = tasks(&domain, [0, 50]);
    let [word] = words();
    assert_eq!(domain.lock_pi(word, &owner, None), Ok(()));
    std::mem::forget(pending(domain.lock_pi_async(word, &forgetful)));
    drop(forgetful);
    assert_eq!(owner.priority(), Priority::realtime(50), "it lends what it has");
    let again = domain.task(2).expect("nobody is found by that number any more");
    assert_eq!(domain.unlock_pi(word, &owner), Ok(()));
    assert_eq!(word.load(Relaxed), WAITERS | 2);
    assert_eq!(again.priority(), Priority::NORMAL);
    assert_eq!(domain.unlock_pi(word, &again), Ok(()), "nobody waits, and the word names it");
}

on_every_scheme![
    dropped_before_its_first_poll_it_was_never_there,
    queued_it_leaves_the_queue_and_the_others_in_order,
    dropped_with_the_lock_it_hands_it_to_the_next,
    lock_goes_down_a_row_of_dropped_futures_to_a_thread,
    ended_with_the_lock_it_keeps_it,
    dropped_as_heir_it_leaves_the_lock_to_the_next,
    last_heir_that_is_dropped_leaves_a_lock_of_the_dead,
    ended_as_heir_it_puts_the_word_right_and_has_the_lock,
    heir_that_cannot_write_the_word_is_the_owner,
    faults_of_an_heir_are_cured,
    task_may_end_though_its_wait_was_forgotten,
];
