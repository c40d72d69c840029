//! What a timeout can be made from, and timeouts of several domains.

use std::sync::atomic::AtomicU32;
use std::task::Poll;
use std::thread::sleep;
use std::time::{Duration, Instant};

use ufutex::platform::Deadline;
use ufutex::{Clock, Domain, Error, System, Timeout, WaitOptions};

use crate::common::asleep::until;
use crate::common::futures::{pending, pending_with, poll};
use crate::common::waker::Notified;

fn monotonic() -> Duration {
    Timeout::After(Duration::ZERO).begin().at
}

/// The deadline that an instant becomes. A timeout at a point in time begins as that point.
fn deadline(instant: Instant) -> Duration {
    let Deadline { clock, at } = Timeout::from(instant).begin();
    assert_eq!(clock, Clock::Monotonic);
    at
}

#[test]
fn an_instant_is_a_deadline_on_the_monotonic_clock() {
    let hour = Duration::from_secs(3600);
    let before = monotonic();
    let instant = Instant::now();
    let after = monotonic();
    sleep(Duration::from_millis(20)); // the deadline is that of the instant, however long ago it was read
    for (instant, earliest, latest) in [
        (instant, before, after),
        (instant + hour, before + hour, after + hour),
        (instant - Duration::from_millis(7), before - Duration::from_millis(7), after - Duration::from_millis(7)),
    ] {
        let (converting, at) = (Instant::now(), deadline(instant));
        let slack = converting.elapsed(); // the clock was read twice in this time
        assert!((earliest..=latest + slack).contains(&at), "{earliest:?} {at:?} {latest:?} {slack:?}");
    }
}

#[test]
fn an_instant_saturates_at_both_ends_of_the_clock() {
    // The earliest and the latest instant that the standard library can represent, as far as powers of two lead there.
    let mut first = Instant::now();
    let mut last = first;
    let seconds = (0..63).rev().map(|power| Duration::from_secs(1 << power));
    let nanoseconds = (0..30).rev().map(|power| Duration::from_nanos(1 << power));
    for step in seconds.chain(nanoseconds) {
        first = first.checked_sub(step).unwrap_or(first);
        last = last.checked_add(step).unwrap_or(last);
    }
    let (converting, at) = (Instant::now(), deadline(first));
    // On Linux this instant lies long before the start of the clock. On Windows it is the start.
    let slack = if cfg!(target_os = "linux") { Duration::ZERO } else { converting.elapsed() };
    assert!(at <= slack, "{at:?}");
    let domain = Domain::new(&System::new());
    let until = |instant: Instant| WaitOptions::new().timeout(instant);
    assert_eq!(domain.wait_with(&AtomicU32::new(0), 0, &until(first)), Err(Error::TimedOut));
    assert!(deadline(last) > monotonic() + Duration::from_secs(1 << 60));
}

#[test]
fn a_wait_ends_at_its_instant_and_not_before() {
    let (domain, word) = (Domain::new(&System::new()), AtomicU32::new(0));
    let ms = Duration::from_millis(30);
    let until = Instant::now() + ms;
    assert_eq!(domain.wait_with(&word, 0, &WaitOptions::new().timeout(until)), Err(Error::TimedOut));
    assert!(Instant::now() >= until);
    let began = Instant::now();
    assert_eq!(domain.wait_with(&word, 0, &WaitOptions::new().timeout(ms)), Err(Error::TimedOut));
    assert!(began.elapsed() >= ms);
}

/// The driver's thread sleeps until the earliest deadline of all domains, whichever came last.
#[test]
fn a_timeout_is_not_delayed_by_a_later_one_of_another_domain() {
    let (system, word) = (System::new(), AtomicU32::new(0));
    let [early, late]: [Domain; 2] = [(); 2].map(|()| Domain::new(&system));
    let after = |length| WaitOptions::new().timeout(length);
    let (notified, waker) = Notified::new();
    let mut waits = pending_with(early.wait_async(&word, 0, &after(Duration::from_millis(50))), &waker);
    let _hour = pending(late.wait_async(&word, 0, &after(Duration::from_secs(3600))));
    until("the earlier timeout is over", || notified.times() != 0);
    assert_eq!(poll(&mut waits), Poll::Ready(Err(Error::TimedOut)));
}
