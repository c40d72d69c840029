//! An embedder's own waiters: `prepare_with`, and what can be done with the result.

use std::mem::forget;
use std::pin::pin;
use std::sync::atomic::AtomicU32;
use std::task::Waker;
use std::time::Duration;

use ufutex::{Error, Requeue, Timeout, WaitOptions, Waiter};

use crate::common::domains::{domain, on_domains};
use crate::common::waiters::{idle, queue, waiters_on};
use crate::common::waker::Notified;

fn cancel_returns_whether_no_wake_had_come() {
    let (domain, word) = (domain(), AtomicU32::new(0));
    let mut queued = waiters_on(&domain, &word, 3);
    let mut last = queued.pop().expect("there are three");
    assert!(queued.pop().expect("there are three").cancel());
    assert_eq!(domain.wake(&word, 1), 1);
    // The cancelled waiter was woken before, so it received the wake. The wake is not passed on to the last waiter.
    assert!(!queued.pop().expect("there are three").cancel());
    assert!(!last.is_woken());
    assert_eq!(domain.wake(&word, usize::MAX), 1);
    assert!(!last.cancel());
    assert_eq!(domain.wake(&word, usize::MAX), 0);
}

fn waiter_can_be_used_again_however_its_wait_ended() {
    let (domain, word) = (domain(), AtomicU32::new(0));
    let mut waiter = Box::pin(Waiter::new());
    for _ in 0..3 {
        assert!(queue(&domain, &mut waiter, &word).cancel());
        drop(queue(&domain, &mut waiter, &word));
        let mut queued = queue(&domain, &mut waiter, &word);
        assert_eq!(domain.wake(&word, usize::MAX), 1);
        assert!(!queued.cancel());
        drop(queued);
        let queued = queue(&domain, &mut waiter, &word);
        assert_eq!(domain.wake(&word, usize::MAX), 1);
        assert_eq!(queued.finish(), Ok(()));
    }
    assert_eq!(domain.wake(&word, usize::MAX), 0);
}

fn wake_passed_on_goes_by_priority() {
    let (domain, word) = (domain(), AtomicU32::new(0));
    let mut waiters = idle(3);
    let queue = |waiter, priority| {
        let options = WaitOptions::new().realtime_priority(priority);
        crate::common::waiters::queue_with(&domain, waiter, &word, options)
    };
    let [a, b, c] = &mut waiters[..] else { unreachable!() };
    let (highest, normal, high) = (queue(a, 99), queue(b, 0), queue(c, 1));
    assert_eq!(domain.wake(&word, 1), 1);
    assert!(highest.is_woken());
    drop(highest);
    assert_eq!((normal.is_woken(), high.is_woken()), (false, true));
}

/// A waiter that comes after the wake must not get it in place of one that was there, whatever its priority. A word
/// that is counted up shows the difference: the one that was there waits for a value that is gone.
fn wake_passed_on_goes_to_a_waiter_that_was_there_when_it_came() {
    for drops in 1..=2 {
        let (domain, word) = (domain(), AtomicU32::new(0));
        let mut waiters = idle(5);
        let queue = |waiter, priority| {
            let options = WaitOptions::new().realtime_priority(priority);
            crate::common::waiters::queue_with(&domain, waiter, &word, options)
        };
        let [a, b, c, d, e] = &mut waiters[..] else { unreachable!() };
        let mut queued = vec![queue(a, 0), queue(b, 0), queue(c, 0)];
        assert_eq!(domain.wake(&word, 1), 1);
        let (late, later) = (queue(d, 99), queue(e, 0));
        for _ in 0..drops {
            drop(queued.remove(0));
        }
        // A wake that is passed on twice is still the first one.
        assert!(queued[0].is_woken(), "dropped {drops}");
        assert!(!late.is_woken() && !later.is_woken() && !queued.iter().skip(1).any(|one| one.is_woken()));
        assert_eq!(domain.wake(&word, 1), 1);
        assert!(late.is_woken(), "the priority counts for the next wake");
    }
}

/// The same of a waiter that is requeued to the word after the wake.
fn wake_passed_on_does_not_go_to_a_waiter_requeued_later() {
    let (domain, word, other) = (domain(), AtomicU32::new(0), AtomicU32::new(0));
    let mut waiters = idle(3);
    let queue = |waiter, word, priority| {
        let options = WaitOptions::new().realtime_priority(priority);
        crate::common::waiters::queue_with(&domain, waiter, word, options)
    };
    let [a, b, c] = &mut waiters[..] else { unreachable!() };
    let (first, second, elsewhere) = (queue(a, &word, 0), queue(b, &word, 0), queue(c, &other, 99));
    assert_eq!(domain.wake(&word, 1), 1);
    assert_eq!(domain.requeue(&other, &word, Requeue { wake: 0, requeue: 1 }).map(|done| done.requeued), Ok(1));
    drop(first);
    assert_eq!((second.is_woken(), elsewhere.is_woken()), (true, false));
}

/// A waiter whose handle was forgotten may be dropped while it is queued.
fn waiter_whose_handle_was_forgotten_is_busy_and_leaves_the_queue_when_dropped() {
    let (domain, word) = (domain(), AtomicU32::new(0));
    let mut waiters = idle(2);
    let mut waiter = Box::pin(Waiter::new());
    forget(queue(&domain, &mut waiter, &word));
    let waker = Waker::noop().clone();
    let again = domain.prepare_with(waiter.as_mut(), &word, 0, &WaitOptions::new(), waker);
    assert_eq!(again.err(), Some(Error::Busy));
    let [first, second] = &mut waiters[..] else { unreachable!() };
    let first = queue(&domain, first, &word);
    drop(waiter);
    assert_eq!(domain.wake(&word, usize::MAX), 1);
    assert!(first.is_woken());

    let mut woken = Box::pin(Waiter::new());
    forget(queue(&domain, &mut woken, &word));
    let second = queue(&domain, second, &word);
    assert_eq!(domain.wake(&word, 1), 1);
    drop(woken);
    assert!(second.is_woken(), "the wake is passed on");
}

fn waiter_that_differs_stays_idle() {
    let (domain, word) = (domain(), AtomicU32::new(0));
    let mut waiter = pin!(Waiter::new());
    let (notified, waker) = Notified::new();
    let result = domain.prepare_with(waiter.as_mut(), &word, 1, &WaitOptions::new(), waker.clone());
    assert_eq!(result.err(), Some(Error::Again));
    let result = domain.prepare(waiter.as_mut(), &word, 1, &WaitOptions::new());
    assert_eq!(result.err(), Some(Error::Again));
    assert_eq!(domain.wake(&word, usize::MAX), 0);
    let queued = domain.prepare_with(waiter.as_mut(), &word, 0, &WaitOptions::new(), waker).expect("the word is 0");
    assert_eq!(domain.wake(&word, 1), 1);
    assert_eq!(notified.times(), 1);
    assert_eq!(queued.finish(), Ok(()));
}

fn deadline_begins_when_the_wait_is_prepared() {
    let (domain, word) = (domain(), AtomicU32::new(0));
    let options = WaitOptions::new().timeout(Timeout::After(Duration::from_millis(5)));
    let mut waiter = pin!(Waiter::new());
    let queued = domain.prepare(waiter.as_mut(), &word, 0, &options).expect("the word is 0");
    std::thread::sleep(Duration::from_millis(5));
    assert!(!queued.is_woken());
    assert_eq!(queued.finish(), Err(Error::TimedOut));
    // A wake before the deadline counts, although `finish` is called after the deadline.
    let queued = domain.prepare(waiter.as_mut(), &word, 0, &options).expect("the word is 0");
    assert_eq!(domain.wake(&word, 1), 1);
    std::thread::sleep(Duration::from_millis(5));
    assert_eq!(queued.finish(), Ok(()));
}

fn thread_may_finish_what_was_queued_for_a_waker() {
    let (domain, word) = (domain(), AtomicU32::new(0));
    let (notified, waker) = Notified::new();
    std::thread::scope(|scope| {
        let finished = scope.spawn(|| {
            let mut waiter = pin!(Waiter::new());
            let queued = domain.prepare_with(waiter.as_mut(), &word, 0, &WaitOptions::new(), waker.clone());
            queued.expect("the word is 0").finish()
        });
        while domain.wake(&word, 1) == 0 {
            std::thread::yield_now();
        }
        assert_eq!(finished.join().expect("it does not panic"), Ok(()));
    });
    assert!(notified.times() <= 1);
}

fn timeouts_that_would_not_be_watched_are_refused() {
    let (domain, word) = (domain(), AtomicU32::new(0));
    let options = WaitOptions::new().timeout(Timeout::After(Duration::from_millis(1)));
    let mut waiter = pin!(Waiter::new());
    let queued = domain.prepare_with(waiter.as_mut(), &word, 0, &options, Waker::noop().clone());
    assert_eq!(queued.err(), Some(Error::Invalid));
}

on_domains![
    thread_may_finish_what_was_queued_for_a_waker,
    timeouts_that_would_not_be_watched_are_refused,
    cancel_returns_whether_no_wake_had_come,
    waiter_can_be_used_again_however_its_wait_ended,
    wake_passed_on_goes_by_priority,
    wake_passed_on_goes_to_a_waiter_that_was_there_when_it_came,
    wake_passed_on_does_not_go_to_a_waiter_requeued_later,
    waiter_whose_handle_was_forgotten_is_busy_and_leaves_the_queue_when_dropped,
    waiter_that_differs_stays_idle,
    deadline_begins_when_the_wait_is_prepared,
];
