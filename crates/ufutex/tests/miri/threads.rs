//! Sleeping threads: in a wait, in a wait with an interrupt, in a channel of expired timers.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ufutex::timer::{Expiry, TimerClock, Timers};
use ufutex::{Domain, Error, Interrupt, System, Timeout, WaitOptions};

use crate::clocks::{both, driver};

#[test]
fn thread_is_woken() {
    let domain: Domain = Domain::new(&System::new());
    let word = AtomicU32::new(0);
    both(
        || {
            word.store(1, Ordering::SeqCst);
            domain.wake(&word, 1);
        },
        || while domain.wait(&word, 0) == Ok(()) && word.load(Ordering::SeqCst) == 0 {},
    );
}

#[test]
fn thread_times_out_while_it_is_woken() {
    let domain: Domain = Domain::new(&System::new());
    let word = AtomicU32::new(0);
    let soon = WaitOptions::new().timeout(Timeout::After(Duration::from_micros(1)));
    for _ in 0..3 {
        both(|| _ = domain.wake(&word, 1), || _ = domain.wait_with(&word, 0, &soon));
    }
    assert_eq!(domain.waiting(), 0);
}

#[test]
fn thread_is_interrupted_while_it_is_woken() {
    let domain: Domain = Domain::new(&System::new());
    let (word, interrupt) = (AtomicU32::new(0), Interrupt::new());
    both(
        || {
            domain.wake(&word, 1);
            interrupt.raise();
        },
        || {
            let result = domain.wait_interruptible(&word, 0, &WaitOptions::new(), &interrupt);
            assert!(matches!(result, Ok(()) | Err(Error::Interrupted)), "{result:?}");
        },
    );
}

#[test]
fn thread_sleeps_for_an_expired_timer() {
    let driver = driver();
    let (timers, expiries) = Timers::channel(&driver, Default::default()).expect("there is memory");
    let id = timers.create(TimerClock::Monotonic, None).expect("there is room");
    timers.settime(id, Expiry::After(Duration::from_micros(3)), Duration::ZERO).expect("it is there");
    both(
        || {
            while driver.turn() == 0 {
                std::thread::yield_now();
            }
        },
        || assert_eq!(expiries.recv().id, id),
    );
}
