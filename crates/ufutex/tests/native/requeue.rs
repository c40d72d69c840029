//! What the Rust interface adds to requeues: words of every kind and width, and waiters of every kind, which are woken and
//! leave where they have been moved to.

use std::sync::atomic::{AtomicU8, AtomicU64};
use std::task::Poll;

use ufutex::{At, Cause, Domain, Error, GuestWord, Key, ObjectId, Queued, Requeue, Target, WaitOptions, Waiter, Width};

use crate::common::domains::{domain, on_domains};
use crate::common::futures::{pending, pending_with, poll};
use crate::common::guest_memory::GuestMemory;
use crate::common::places::{lasting_domain, pairs, words};
use crate::common::sleeping::Sleeping;
use crate::common::waiters::{waiter_on, waiters_on};
use crate::common::waker::Notified;

/// The result of a requeue of at most so many: how many it has woken and moved.
type Done = Result<[usize; 2], Error>;

fn requeue(domain: &Domain, from: impl Key, to: impl Key, [wake, requeue]: [usize; 2]) -> Done {
    domain.requeue(from, to, Requeue { wake, requeue }).map(|done| [done.woken, done.requeued])
}

/// As `requeue`, if `from` holds `expected`.
fn cmp_requeue<T: Target>(domain: &Domain, from: T, expected: T::Value, to: impl Key, most: [usize; 2]) -> Done {
    let [wake, requeue] = most;
    domain.cmp_requeue(from, expected, to, Requeue { wake, requeue }).map(|done| [done.woken, done.requeued])
}

/// The indices of the waiters that have been woken.
fn woken(queued: &[Queued<'_, '_>]) -> Vec<usize> {
    (0..queued.len()).filter(|&i| queued[i].is_woken()).collect()
}

fn waiters_move_from_private_to_shared_words_only() {
    let domain = domain();
    let id = ObjectId::new(3).expect("small enough");
    for [private, word] in pairs() {
        let object = At::object(word, id, 64);
        let shared = At::address_space(word);
        let queued = waiters_on(&domain, private, 6);
        assert_eq!(requeue(&domain, private, object, [1, 4]), Ok([1, 4]));
        assert_eq!(domain.wake(word, usize::MAX), 0, "not the private word at that address");
        assert_eq!(requeue(&domain, object, shared, [1, 2]), Ok([1, 2]));
        assert_eq!(woken(&queued), [0, 1]);
        // Waiters of a shared word may belong to another domain, so they cannot move to a private word.
        assert_eq!(cmp_requeue(&domain, shared, 0, private, [1, 2]), Err(Error::Invalid));
        assert_eq!(requeue(&domain, object, private, [1, 2]), Err(Error::Invalid));
        assert_eq!(woken(&queued), [0, 1]);
        assert_eq!(domain.wake(object, usize::MAX), 1);
        assert_eq!(woken(&queued), [0, 1, 4]);
        assert_eq!(domain.wake(shared, usize::MAX), 2);
        assert_eq!(domain.wake(private, 1), 1);
        assert_eq!(woken(&queued), [0, 1, 2, 3, 4, 5]);
    }
}

fn words_of_other_widths_can_be_requeued() {
    let domain = domain();
    let (narrow, wide) = (AtomicU8::new(0), AtomicU64::new(0));
    let queued = waiter_on(&domain, &narrow);
    assert_eq!(cmp_requeue(&domain, &narrow, 1, &wide, [0, 1]), Err(Error::Again));
    assert_eq!(cmp_requeue(&domain, &narrow, 0, &wide, [0, 1]), Ok([0, 1]));
    assert_eq!(cmp_requeue(&domain, &wide, 1 << 32, &narrow, [0, 1]), Err(Error::Again));
    assert_eq!(cmp_requeue(&domain, &wide, 0, &narrow, [1, 0]), Ok([1, 0]));
    assert!(queued.is_woken());
}

fn value_that_the_word_cannot_hold_is_invalid() {
    let (domain, memory) = (domain(), GuestMemory::new());
    let word = GuestWord::new(&memory, memory.at(0), Width::U32).expect("aligned");
    let [to] = words();
    assert_eq!(cmp_requeue(&domain, word, 1 << 32, to, [1, 1]), Err(Error::Invalid));
    assert_eq!(memory.faulted_in(), []);
}

fn only_the_word_that_is_compared_is_read() {
    let (domain, memory) = (domain(), GuestMemory::new());
    let [from, to] = [0, 64].map(|at| GuestWord::new(&memory, memory.at(at), Width::U32).expect("aligned"));
    let queued = waiters_on(&domain, from, 3);
    memory.lose();
    assert_eq!(requeue(&domain, from, to, [1, 1]), Ok([1, 1]));
    assert_eq!(cmp_requeue(&domain, from, 0, to, [1, 1]), Err(Error::Fault));
    assert_eq!(woken(&queued), [0]);
    memory.restore();
    memory.fault_next_loads(3);
    assert_eq!(cmp_requeue(&domain, from, 0, to, [0, 1]), Ok([0, 1]));
    assert_eq!(domain.wake(to, usize::MAX), 2);
}

fn every_kind_of_waiter_is_woken_where_it_was_moved_to() {
    let domain = lasting_domain();
    for [from, to] in pairs() {
        let thread = Sleeping::new(move || domain.wait(from, 0));
        let prepared = Sleeping::new(move || {
            let mut waiter = std::pin::pin!(Waiter::new());
            domain.prepare(waiter.as_mut(), from, 0, &WaitOptions::new()).and_then(ufutex::Queued::finish)
        });
        let (told_future, waker) = Notified::new();
        let mut future = pending_with(domain.wait_async(from, 0, &WaitOptions::new()), &waker);
        let (told_custom, waker) = Notified::new();
        let mut waiter = Box::pin(Waiter::new());
        let mut custom = domain.prepare_with(waiter.as_mut(), from, 0, &WaitOptions::new(), waker).expect("it is 0");
        let [elsewhere] = words();
        let mut any = pending(domain.wait_any_async([(elsewhere, 0), (from, 0)], &WaitOptions::new()));
        let interrupt = crate::common::places::forever(ufutex::Interrupt::new());
        let interruptible = Sleeping::new(move || domain.wait_interruptible(from, 0, &WaitOptions::new(), interrupt));
        assert_eq!(requeue(domain, from, to, [0, usize::MAX]), Ok([0, 6]));
        assert_eq!(domain.wake(from, usize::MAX), 0);
        assert_eq!((poll(&mut future), told_future.times(), custom.is_woken()), (Poll::Pending, 0, false));
        assert_eq!(domain.wake(to, usize::MAX), 6);
        assert_eq!(thread.outcome(), Ok(()));
        assert_eq!(prepared.outcome(), Ok(()));
        assert_eq!(interruptible.outcome(), Ok(()));
        assert_eq!(poll(&mut future), Poll::Ready(Ok(())));
        assert_eq!((told_custom.times(), custom.cancel()), (1, false));
        assert_eq!(poll(&mut any), Poll::Ready(Ok(1)));
    }
}

/// A requeued wait that ends in any way leaves no entry on the word to which it was moved.
fn future_and_custom_waiter_leave_from_where_they_were_moved_to() {
    let domain = domain();
    for [from, to] in pairs() {
        let before = waiter_on(&domain, to);
        let mut custom = waiter_on(&domain, from);
        let dropped = pending(domain.wait_async(from, 0, &WaitOptions::new()));
        let mut timed_out = pending(domain.wait_async(from, 0, &WaitOptions::new()));
        let mut interrupted = pending(domain.wait_async(from, 0, &WaitOptions::new()));
        assert_eq!(requeue(&domain, from, to, [0, 4]), Ok([0, 4]));
        let after = waiter_on(&domain, to);
        assert!(custom.cancel());
        drop(dropped);
        assert_eq!(timed_out.as_mut().end(Cause::TimedOut), Err(Error::TimedOut));
        assert_eq!(interrupted.as_mut().end(Cause::Interrupted), Err(Error::Interrupted));
        assert_eq!(domain.wake(to, 1), 1);
        assert!(before.is_woken() && !after.is_woken());
        assert_eq!(domain.wake(to, usize::MAX), 1);
        assert!(after.is_woken());
        assert_eq!(domain.wake(from, usize::MAX), 0);
    }
}

/// A future that was requeued, woken and dropped passes its wake on at the word to which it was moved.
fn dropped_future_passes_its_wake_on_where_it_was_moved_to() {
    let domain = domain();
    for [from, to] in pairs() {
        let dropped = pending(domain.wait_async(from, 0, &WaitOptions::new()));
        assert_eq!(requeue(&domain, from, to, [0, 1]), Ok([0, 1]));
        let mut stranger = pending(domain.wait_async(from, 0, &WaitOptions::new()));
        let mut next = pending(domain.wait_async(to, 0, &WaitOptions::new()));
        assert_eq!(domain.wake(to, 1), 1);
        drop(dropped);
        assert_eq!(poll(&mut stranger), Poll::Pending);
        assert_eq!(poll(&mut next), Poll::Ready(Ok(())));
    }
}

fn wake_by_a_requeue_is_passed_on_to_waiters_that_stayed() {
    let domain = domain();
    for [from, to] in pairs() {
        let mut waits: Vec<_> =
            (0..3).map(|_| Some(pending(domain.wait_async(from, 0, &WaitOptions::new())))).collect();
        assert_eq!(requeue(&domain, from, to, [1, 1]), Ok([1, 1]));
        waits[0] = None;
        assert_eq!(poll(waits[1].as_mut().expect("it is there")), Poll::Pending);
        assert_eq!(poll(waits[2].as_mut().expect("it is there")), Poll::Ready(Ok(())));
    }
}

/// A future that is polled again after a requeue has its new waker woken by a wake of the target word.
fn new_waker_of_a_moved_future_is_woken() {
    let domain = domain();
    for [from, to] in pairs() {
        let [(old, old_waker), (new, new_waker)] = [(); 2].map(|()| Notified::new());
        let mut wait = pending_with(domain.wait_async(from, 0, &WaitOptions::new()), &old_waker);
        assert_eq!(requeue(&domain, from, to, [0, 1]), Ok([0, 1]));
        assert_eq!(crate::common::futures::poll_with(&mut wait, &new_waker), Poll::Pending);
        assert_eq!(domain.wake(to, 1), 1);
        assert_eq!((old.times(), new.times()), (0, 1));
        assert_eq!(poll(&mut wait), Poll::Ready(Ok(())));
    }
}

on_domains![
    waiters_move_from_private_to_shared_words_only,
    words_of_other_widths_can_be_requeued,
    value_that_the_word_cannot_hold_is_invalid,
    only_the_word_that_is_compared_is_read,
    every_kind_of_waiter_is_woken_where_it_was_moved_to,
    future_and_custom_waiter_leave_from_where_they_were_moved_to,
    dropped_future_passes_its_wake_on_where_it_was_moved_to,
    wake_by_a_requeue_is_passed_on_to_waiters_that_stayed,
    new_waker_of_a_moved_future_is_woken,
];
