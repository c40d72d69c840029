//! Futures: polling, dropping at any point, moving between threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;

use ufutex::{Domain, Error, Wait, WaitOptions};

use crate::common::domains::{domain, on_domains};
use crate::common::futures::{Boxed, pending, poll, poll_with};
use crate::common::waiters::{bits, nonzero};
use crate::common::waker::Notified;

type Outcome = Poll<Result<(), Error>>;

const WOKEN: Outcome = Poll::Ready(Ok(()));

fn waiting<'d, 'w>(domain: &'d Domain, word: &'w AtomicU32, options: WaitOptions) -> Boxed<Wait<'d, &'w AtomicU32>> {
    pending(domain.wait_async(word, 0, &options))
}

fn word_is_compared_at_the_first_poll() {
    let (domain, word) = (domain(), AtomicU32::new(0));
    let mut early = Box::pin(domain.wait_async(&word, 0, &WaitOptions::new()));
    let mut late = Box::pin(domain.wait_async(&word, 1, &WaitOptions::new()));
    assert_eq!(domain.wake(&word, usize::MAX), 0, "not queued before it is polled");
    word.store(1, Ordering::Release);
    assert_eq!(poll(&mut early), Poll::Ready(Err(Error::Again)));
    assert_eq!(poll(&mut late), Poll::Pending);
    assert_eq!(domain.wake(&word, usize::MAX), 1);
    assert_eq!(poll(&mut late), WOKEN);
}

fn future_dropped_before_its_first_poll_leaves_nothing_behind() {
    let (domain, word) = (domain(), AtomicU32::new(0));
    drop(domain.wait_async(&word, 0, &WaitOptions::new()));
    assert_eq!(domain.wake(&word, usize::MAX), 0);
    assert_eq!(domain.table_bytes(), 0);
}

fn future_dropped_while_queued_leaves_no_entry_behind() {
    let (domain, word) = (domain(), AtomicU32::new(0));
    let [first, mut second, third] = [(); 3].map(|()| waiting(&domain, &word, WaitOptions::new()));
    drop(first);
    drop(third);
    assert_eq!(domain.wake(&word, usize::MAX), 1);
    assert_eq!(poll(&mut second), WOKEN);
    drop(waiting(&domain, &word, WaitOptions::new()));
    assert_eq!(domain.wake(&word, usize::MAX), 0);
}

fn future_dropped_after_a_wake_passes_it_to_the_next() {
    let (domain, word) = (domain(), AtomicU32::new(0));
    let (notified, waker) = Notified::new();
    let first = waiting(&domain, &word, WaitOptions::new());
    let mut second = waiting(&domain, &word, WaitOptions::new());
    let mut third = waiting(&domain, &word, WaitOptions::new());
    assert_eq!(poll_with(&mut second, &waker), Poll::Pending);
    assert_eq!(domain.wake(&word, 1), 1);
    drop(first);
    assert_eq!(notified.times(), 1);
    assert_eq!(poll(&mut second), WOKEN);
    assert_eq!(poll(&mut third), Poll::Pending);
    assert_eq!(domain.wake(&word, usize::MAX), 1);
}

fn wake_is_passed_on_by_each_future_that_is_dropped() {
    let (domain, word) = (domain(), AtomicU32::new(0));
    let mut waits: Vec<_> = (0..5).map(|_| waiting(&domain, &word, WaitOptions::new())).collect();
    assert_eq!(domain.wake(&word, 2), 2);
    // Two wakes are passed on when four futures are dropped. One reaches the last future, the other has no receiver
    // left.
    let mut last = waits.pop().expect("there are five");
    drop(waits);
    assert_eq!(poll(&mut last), WOKEN);
    let mut late = waiting(&domain, &word, WaitOptions::new());
    assert_eq!(poll(&mut late), Poll::Pending);
}

fn wake_is_passed_only_to_a_waiter_that_it_was_meant_for() {
    let (domain, word) = (domain(), AtomicU32::new(0));
    let first = waiting(&domain, &word, bits(0b011));
    let mut other = waiting(&domain, &word, bits(0b001));
    let mut fits = waiting(&domain, &word, bits(0b110));
    assert_eq!(domain.wake_bitset(&word, 1, nonzero(0b010)), 1);
    drop(first);
    assert_eq!(poll(&mut other), Poll::Pending);
    assert_eq!(poll(&mut fits), WOKEN);
}

fn wake_that_was_reported_is_not_passed_on() {
    let (domain, word) = (domain(), AtomicU32::new(0));
    let mut first = waiting(&domain, &word, WaitOptions::new());
    let mut second = waiting(&domain, &word, WaitOptions::new());
    assert_eq!(domain.wake(&word, 1), 1);
    assert_eq!(poll(&mut first), WOKEN);
    drop(first);
    assert_eq!(poll(&mut second), Poll::Pending);
}

fn future_may_be_polled_and_dropped_by_different_threads() {
    let domain = Arc::new(domain());
    let word: &'static AtomicU32 = Box::leak(Box::new(AtomicU32::new(0)));
    std::thread::scope(|scope| {
        let mut wait = waiting(&domain, word, WaitOptions::new());
        let dropped = waiting(&domain, word, WaitOptions::new());
        scope.spawn(move || drop(dropped)).join().expect("it can be dropped there");
        let (notified, waker) = Notified::new();
        let polled = scope.spawn(move || (poll_with(&mut wait, &waker), wait));
        let (outcome, mut wait) = polled.join().expect("it can be polled there");
        assert_eq!(outcome, Poll::Pending);
        assert_eq!(domain.wake(word, usize::MAX), 1);
        assert_eq!(notified.times(), 1);
        assert_eq!(poll(&mut wait), WOKEN);
    });
}

on_domains![
    word_is_compared_at_the_first_poll,
    future_dropped_before_its_first_poll_leaves_nothing_behind,
    future_dropped_while_queued_leaves_no_entry_behind,
    future_dropped_after_a_wake_passes_it_to_the_next,
    wake_is_passed_on_by_each_future_that_is_dropped,
    wake_is_passed_only_to_a_waiter_that_it_was_meant_for,
    wake_that_was_reported_is_not_passed_on,
    future_may_be_polled_and_dropped_by_different_threads,
];

#[test]
#[should_panic(expected = "polled after it had ended")]
fn poll_after_the_end_panics() {
    let (domain, word) = (domain(), AtomicU32::new(1));
    let mut wait = Box::pin(domain.wait_async(&word, 0, &WaitOptions::new()));
    assert_eq!(poll(&mut wait), Poll::Ready(Err(Error::Again)));
    let _ = poll(&mut wait);
}
