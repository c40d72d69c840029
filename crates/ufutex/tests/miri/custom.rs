//! An embedder's own waiters, which are queued with a waker, cancelled and dropped while another thread wakes them.

use std::pin::pin;
use std::sync::atomic::AtomicU32;

use ufutex::{Domain, Requeue, System, WaitOptions, Waiter};

use crate::clocks::both;
use crate::waker::Notified;

#[test]
fn waiter_is_cancelled_while_it_is_woken() {
    let domain = Domain::new(&System::new());
    let word = AtomicU32::new(0);
    for _ in 0..3 {
        let (notified, waker) = Notified::new();
        let mut waiter = pin!(Waiter::new());
        let mut queued = domain.prepare_with(waiter.as_mut(), &word, 0, &WaitOptions::new(), waker).expect("it is 0");
        both(
            || {
                let woken = domain.wake(&word, 1);
                assert_eq!(woken, notified.times());
            },
            move || _ = queued.cancel(),
        );
    }
    assert_eq!(domain.waiting(), 0);
}

#[test]
fn waiter_is_polled_until_it_is_woken_and_used_again() {
    let domain = Domain::new(&System::new());
    let word = AtomicU32::new(0);
    let mut waiter = pin!(Waiter::new());
    for _ in 0..3 {
        let waker = Notified::new().1;
        let queued = domain.prepare_with(waiter.as_mut(), &word, 0, &WaitOptions::new(), waker).expect("it is 0");
        both(
            || assert_eq!(domain.wake(&word, 1), 1),
            || {
                while !queued.is_woken() {
                    std::thread::yield_now();
                }
                assert_eq!(queued.finish(), Ok(()));
            },
        );
    }
}

#[test]
fn waiter_is_dropped_while_it_is_requeued() {
    let domain = Domain::new(&System::new());
    let (from, to) = (AtomicU32::new(0), AtomicU32::new(0));
    for _ in 0..3 {
        let mut waiter = pin!(Waiter::new());
        let waker = Notified::new().1;
        let queued = domain.prepare_with(waiter.as_mut(), &from, 0, &WaitOptions::new(), waker).expect("it is 0");
        both(|| _ = domain.requeue(&from, &to, Requeue { wake: 0, requeue: 1 }), || drop(queued));
        assert_eq!(domain.wake(&to, 1), 0);
    }
}

#[test]
fn waiter_sleeps_as_a_thread() {
    let domain = Domain::new(&System::new());
    let word = AtomicU32::new(0);
    let mut waiter = pin!(Waiter::new());
    let queued = domain.prepare(waiter.as_mut(), &word, 0, &WaitOptions::new()).expect("it is 0");
    both(|| assert_eq!(domain.wake(&word, 1), 1), || queued.finish().expect("it is woken"));
}
