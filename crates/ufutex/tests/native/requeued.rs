//! Waiters of every kind after a requeue: how they are woken, and how they leave the queue.

use std::task::Poll;
use std::time::Duration;

use ufutex::{Cause, Error, Requeue, Requeued, Timeout, WaitOptions, Waiter};

use crate::common::domains::{domain, on_domains};
use crate::common::futures::{pending, pending_with, poll};
use crate::common::places::{lasting_domain, pairs, words};
use crate::common::sleeping::Sleeping;
use crate::common::waiters::{waiter_on, waiters_on};
use crate::common::waker::Notified;

const MOVED: Requeued = Requeued { woken: 0, requeued: 1 };

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
        assert_eq!(
            domain.requeue(from, to, Requeue { wake: 0, requeue: usize::MAX }),
            Ok(Requeued { woken: 0, requeued: 6 })
        );
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
        assert_eq!(domain.requeue(from, to, Requeue { wake: 0, requeue: 4 }), Ok(Requeued { woken: 0, requeued: 4 }));
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

fn thread_times_out_where_it_was_moved_to() {
    let domain = lasting_domain();
    'pairs: for [from, to] in pairs() {
        let before = waiter_on(domain, to);
        let after = waiter_on(domain, to);
        // If the wait times out before it is requeued, the test tries again with a longer timeout.
        for ms in [20, 200, 2000, 20_000] {
            let options = WaitOptions::new().timeout(Timeout::After(Duration::from_millis(ms)));
            let thread = Sleeping::new(move || domain.wait_with(from, 0, &options));
            let moved = domain.requeue(from, to, Requeue { wake: 0, requeue: 1 });
            assert_eq!(thread.outcome(), Err(Error::TimedOut));
            if moved == Ok(MOVED) {
                assert_eq!(domain.wake(to, usize::MAX), 2);
                assert!(before.is_woken() && after.is_woken());
                continue 'pairs;
            }
        }
        panic!("it always timed out before it was moved");
    }
}

fn thread_is_interrupted_where_it_was_moved_to() {
    let domain = lasting_domain();
    for [from, to] in pairs() {
        let interrupt = crate::common::places::forever(ufutex::Interrupt::new());
        let thread = Sleeping::new(move || domain.wait_interruptible(from, 0, &WaitOptions::new(), interrupt));
        assert_eq!(domain.requeue(from, to, Requeue { wake: 0, requeue: 1 }), Ok(MOVED));
        interrupt.raise();
        assert_eq!(thread.outcome(), Err(Error::Interrupted));
        assert_eq!(domain.wake(to, usize::MAX) + domain.wake(from, usize::MAX), 0);
    }
}

/// A future that was requeued, woken and dropped passes its wake on at the word to which it was moved.
fn dropped_future_passes_its_wake_on_where_it_was_moved_to() {
    let domain = domain();
    for [from, to] in pairs() {
        let dropped = pending(domain.wait_async(from, 0, &WaitOptions::new()));
        assert_eq!(domain.requeue(from, to, Requeue { wake: 0, requeue: 1 }), Ok(MOVED));
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
        assert_eq!(domain.requeue(from, to, Requeue { wake: 1, requeue: 1 }), Ok(Requeued { woken: 1, requeued: 1 }));
        waits[0] = None;
        assert_eq!(poll(waits[1].as_mut().expect("it is there")), Poll::Pending);
        assert_eq!(poll(waits[2].as_mut().expect("it is there")), Poll::Ready(Ok(())));
    }
}

fn requeue_wakes_each_waker_of_a_woken_waiter_once() {
    let domain = domain();
    for [from, to] in pairs() {
        let tolds: Vec<_> = (0..40).map(|_| Notified::new()).collect();
        let mut waits: Vec<_> = tolds
            .iter()
            .map(|(_, waker)| pending_with(domain.wait_async(from, 0, &WaitOptions::new()), waker))
            .collect();
        assert_eq!(
            domain.cmp_requeue(from, 0, to, Requeue { wake: 20, requeue: 10 }),
            Ok(Requeued { woken: 20, requeued: 10 })
        );
        let times: Vec<_> = tolds.iter().map(|(notified, _)| notified.times()).collect();
        assert_eq!(times, [vec![1; 20], vec![0; 20]].concat());
        assert!(waits[..20].iter_mut().all(|wait| poll(wait) == Poll::Ready(Ok(()))));
        assert!(waits[20..].iter_mut().all(|wait| poll(wait).is_pending()));
        assert_eq!((domain.wake(to, usize::MAX), domain.wake(from, usize::MAX)), (10, 10));
    }
}

/// A future that is polled again after a requeue has its new waker woken by a wake of the target word.
fn new_waker_of_a_moved_future_is_woken() {
    let domain = domain();
    for [from, to] in pairs() {
        let [(old, old_waker), (new, new_waker)] = [(); 2].map(|()| Notified::new());
        let mut wait = pending_with(domain.wait_async(from, 0, &WaitOptions::new()), &old_waker);
        assert_eq!(domain.requeue(from, to, Requeue { wake: 0, requeue: 1 }), Ok(MOVED));
        assert_eq!(crate::common::futures::poll_with(&mut wait, &new_waker), Poll::Pending);
        assert_eq!(domain.wake(to, 1), 1);
        assert_eq!((old.times(), new.times()), (0, 1));
        assert_eq!(poll(&mut wait), Poll::Ready(Ok(())));
    }
}

/// A requeue from a word with `plain` plain waiters followed by a waiter for a PI lock.
struct Meeting {
    plain: usize,
    wake: usize,
    requeue: usize,
    /// The waiters that are woken and requeued before the requeue reaches the PI waiter.
    done: Requeued,
}

impl Meeting {
    fn new(plain: usize, [wake, requeue]: [usize; 2], [woken, requeued]: [usize; 2]) -> Self {
        Self { plain, wake, requeue, done: Requeued { woken, requeued } }
    }

    fn is_invalid(&self) {
        let domain = domain();
        let task = domain.task(7).expect("it is free");
        let &Self { plain, wake, requeue, done } = self;
        let case = format!("{plain} before it, wake {wake} and move {requeue}");
        let [from, to, lock] = words();
        let queued = waiters_on(&domain, from, plain);
        let mut waits_for_lock = pending(domain.wait_requeue_pi_async(from, 0, lock, &task, &WaitOptions::new()));
        assert_eq!(domain.requeue(from, to, Requeue { wake, requeue }), Err(Error::Invalid), "{case}");
        assert_eq!(queued.iter().filter(|queued| queued.is_woken()).count(), done.woken, "{case}");
        assert_eq!(domain.wake(to, usize::MAX), done.requeued, "what was done stays done: {case}");
        assert_eq!(poll(&mut waits_for_lock), Poll::Pending, "{case}");
    }
}

fn requeue_ends_with_einval_at_a_waiter_of_a_lock() {
    for meeting in [
        Meeting::new(0, [1, 0], [0, 0]),
        Meeting::new(0, [0, 1], [0, 0]),
        Meeting::new(1, [1, 1], [1, 0]),
        Meeting::new(2, [1, 5], [1, 1]),
        Meeting::new(3, [5, 0], [3, 0]),
        Meeting::new(17, [20, 5], [17, 0]),
        Meeting::new(20, [17, 5], [17, 3]),
    ] {
        meeting.is_invalid();
    }
}

fn requeue_ends_with_einval_at_a_waiter_of_a_lock_behind_the_first_sixteen() {
    Meeting::new(16, [17, 0], [16, 0]).is_invalid();
    Meeting::new(17, [20, 0], [17, 0]).is_invalid();
    Meeting::new(40, [usize::MAX, 0], [40, 0]).is_invalid();
}

fn requeue_that_does_not_reach_a_waiter_of_a_lock_succeeds() {
    let domain = domain();
    let task = domain.task(7).expect("it is free");
    for (plain, wake, requeue) in [(1, 1, 0), (1, 0, 1), (2, 1, 1), (20, 20, 0), (20, 16, 4), (5, 0, 0)] {
        let [from, to, lock] = words();
        let queued = waiters_on(&domain, from, plain);
        let _waits_for_lock = pending(domain.wait_requeue_pi_async(from, 0, lock, &task, &WaitOptions::new()));
        let expected = Requeued { woken: wake, requeued: requeue };
        assert_eq!(domain.requeue(from, to, Requeue { wake, requeue }), Ok(expected));
        assert_eq!(domain.wake(to, usize::MAX), requeue);
        drop(queued);
    }
}

on_domains![
    every_kind_of_waiter_is_woken_where_it_was_moved_to,
    future_and_custom_waiter_leave_from_where_they_were_moved_to,
    thread_times_out_where_it_was_moved_to,
    thread_is_interrupted_where_it_was_moved_to,
    dropped_future_passes_its_wake_on_where_it_was_moved_to,
    wake_by_a_requeue_is_passed_on_to_waiters_that_stayed,
    requeue_wakes_each_waker_of_a_woken_waiter_once,
    new_waker_of_a_moved_future_is_woken,
    requeue_ends_with_einval_at_a_waiter_of_a_lock,
    requeue_ends_with_einval_at_a_waiter_of_a_lock_behind_the_first_sixteen,
    requeue_that_does_not_reach_a_waiter_of_a_lock_succeeds,
];
