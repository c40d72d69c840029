//! Timeouts.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{AcqRel, Acquire};
use std::time::Duration;

use ufutex::{Clock, Timeout};

use crate::common::asleep::until;
use crate::common::libc;
use crate::common::patient::within_patience;
use crate::futex::{Futex, How, PLAINLY, word};
use crate::sleeper::{Order, Sleeper, wait};

const SHORT: Duration = Duration::from_millis(5);

/// The time on `clock` since its epoch.
fn now(clock: Clock) -> Duration {
    let id = match clock {
        Clock::Monotonic => libc::CLOCK_MONOTONIC,
        Clock::Realtime => libc::CLOCK_REALTIME,
    };
    crate::common::kernel::now(id)
}

/// Waits with the timeout `at`, and checks that `clock` has reached that time when the wait ends.
fn ends_no_earlier(futex: &Arc<dyn Futex>, how: How, clock: Clock, at: Duration) {
    let futex = futex.clone();
    let (result, end) = within_patience("a wait", move || (futex.wait(word(0), 0, how), now(clock)));
    assert_eq!(result, Err(libc::ETIMEDOUT));
    assert!(end >= at, "ended at {end:?}, {:?} too early", at - end);
}

pub fn relative_timeout_ends_the_wait_but_not_before_its_time(futex: &Arc<dyn Futex>) {
    let at = now(Clock::Monotonic) + SHORT;
    ends_no_earlier(futex, How::within(Timeout::After(SHORT)), Clock::Monotonic, at);
}

pub fn absolute_monotonic_timeout_ends_the_wait_but_not_before_its_time(futex: &Arc<dyn Futex>) {
    let at = now(Clock::Monotonic) + SHORT;
    ends_no_earlier(futex, How::within(Timeout::At(Clock::Monotonic, at)), Clock::Monotonic, at);
}

pub fn absolute_realtime_timeout_ends_the_wait_but_not_before_its_time(futex: &Arc<dyn Futex>) {
    let at = now(Clock::Realtime) + SHORT;
    ends_no_earlier(futex, How::within(Timeout::At(Clock::Realtime, at)), Clock::Realtime, at);
}

pub fn timeout_that_has_passed_already_ends_the_wait(futex: &Arc<dyn Futex>) {
    let passed = [
        Timeout::After(Duration::ZERO),
        Timeout::At(Clock::Monotonic, Duration::ZERO),
        Timeout::At(Clock::Monotonic, now(Clock::Monotonic) - Duration::from_nanos(1)),
        Timeout::At(Clock::Realtime, Duration::ZERO),
        Timeout::At(Clock::Realtime, now(Clock::Realtime) - Duration::from_secs(3600)),
    ];
    for timeout in passed {
        assert_eq!(wait(futex, word(0), 0, How::within(timeout)), Err(libc::ETIMEDOUT), "{timeout:?}");
    }
}

pub fn wake_ends_a_wait_before_its_timeout(futex: &Arc<dyn Futex>) {
    let far = Duration::from_secs(1 << 33);
    for timeout in [
        Timeout::After(Duration::from_secs(3600)),
        Timeout::After(Duration::MAX),
        Timeout::At(Clock::Monotonic, far),
        Timeout::At(Clock::Monotonic, Duration::MAX),
        Timeout::At(Clock::Realtime, far),
        Timeout::At(Clock::Realtime, Duration::MAX),
    ] {
        let word = word(0);
        let sleeper = Sleeper::new(futex, word, How::within(timeout));
        assert_eq!(futex.wake(word, 1), 1, "{timeout:?}");
        assert_eq!(sleeper.outcome(), Ok(()), "{timeout:?}");
    }
}

/// Regression test for a defect of Redox ([peer-tables]): the entry of a waiter that had timed out stayed queued, and
/// the next wake was spent on it.
pub fn waiter_that_timed_out_leaves_no_entry_behind(futex: &Arc<dyn Futex>) {
    let word = word(0);
    for _ in 0..10 {
        assert_eq!(wait(futex, word, 0, How::within(Timeout::After(Duration::ZERO))), Err(libc::ETIMEDOUT));
    }
    assert_eq!(futex.wake(word, usize::MAX), 0);
}

pub fn waiter_that_times_out_leaves_the_others_queued_in_order(futex: &Arc<dyn Futex>) {
    let word = word(0);
    let order = Order::default();
    let stay = |number| {
        let sleeper = Sleeper::start(futex, word, PLAINLY, order.note(number));
        sleeper.until_asleep();
    };
    let leave = || Sleeper::start(futex, word, How::within(Timeout::After(SHORT)), || {});
    let mut leaving = vec![leave()]; // the first in the queue
    stay(0);
    leaving.push(leave()); // one in the middle
    stay(1);
    leaving.push(leave()); // and the last
    for sleeper in leaving {
        assert_eq!(sleeper.outcome(), Err(libc::ETIMEDOUT));
    }
    for woken in 1..=2 {
        assert_eq!(futex.wake(word, 1), 1);
        until("the waiter has noted its wake", || order.seen().len() == woken);
    }
    assert_eq!(order.seen(), [0, 1]);
    assert_eq!(futex.wake(word, usize::MAX), 0);
}

/// Races wakes with timeouts. The waker must count a wake exactly if the waiter returns success.
pub fn wakes_counted_are_waits_that_ended_by_a_wake(futex: &Arc<dyn Futex>) {
    const WAITS: u32 = 200;
    let word = word(0);
    let (done, woken) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    for _ in 0..2 {
        let (futex, done, woken) = (futex.clone(), done.clone(), woken.clone());
        std::thread::spawn(move || {
            for i in 0..WAITS {
                let length = Duration::from_micros(u64::from(i % 5) * 20);
                match futex.wait(word, 0, How::within(Timeout::After(length))) {
                    Ok(()) => _ = woken.fetch_add(1, AcqRel),
                    Err(libc::ETIMEDOUT) => {}
                    Err(other) => panic!("a wait ended with errno {other}"),
                }
            }
            done.fetch_add(1, AcqRel);
        });
    }
    let mut counted = 0;
    until("all waits have ended", || {
        (0..100).for_each(|_| counted += futex.wake(word, 1));
        done.load(Acquire) == 2
    });
    assert_eq!(woken.load(Acquire), counted);
}
