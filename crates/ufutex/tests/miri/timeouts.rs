//! Futures with a timeout that one thread polls and drops while another thread turns the driver.

use std::sync::atomic::AtomicU32;
use std::task::Poll;
use std::time::Duration;

use ufutex::{Domain, Error, Timeout, WaitOptions};

use crate::clocks::{both, system, while_it_turns};
use crate::polls::{pending, poll, poll_with};
use crate::waker::Notified;

const ROUNDS: usize = 6;

fn after(microseconds: u64) -> WaitOptions {
    WaitOptions::new().timeout(Timeout::After(Duration::from_micros(microseconds)))
}

#[test]
fn timeouts_begin_and_are_dropped_while_the_driver_turns() {
    let system = system();
    let domain: Domain = Domain::new(&system);
    let word = AtomicU32::new(0);
    while_it_turns(system.driver(), || {
        for round in 0..ROUNDS as u64 {
            // A near timeout expires at once or while the driver turns. A far one is dropped before it expires.
            let mut near = Box::pin(domain.wait_async(&word, 0, &after(5 + round)));
            _ = poll(&mut near);
            let far = pending(domain.wait_async(&word, 0, &after(1_000_000)));
            drop(near);
            drop(far);
        }
    });
    assert_eq!(domain.waiting(), 0);
}

#[test]
fn timeouts_expire_while_their_futures_are_polled() {
    let system = system();
    let domain: Domain = Domain::new(&system);
    let word = AtomicU32::new(0);
    let (notified, waker) = Notified::new();
    let mut wait = Box::pin(domain.wait_async(&word, 0, &after(20)));
    assert!(poll_with(&mut wait, &waker).is_pending());
    both(
        || {
            while notified.times() == 0 {
                system.driver().turn();
            }
        },
        || {
            // If the timeout wakes the first waker, the loop below still waits for this one.
            let wakers = [Notified::new().1, waker.clone()];
            let result = wakers.iter().cycle().find_map(|waker| match poll_with(&mut wait, waker) {
                Poll::Ready(result) => Some(result),
                Poll::Pending => {
                    std::thread::yield_now();
                    None
                }
            });
            waker.wake_by_ref();
            assert_eq!(result, Some(Err(Error::TimedOut)));
        },
    );
}

#[test]
fn wait_for_several_words_times_out_while_one_is_woken() {
    let system = system();
    let domain: Domain = Domain::new(&system);
    let words = [const { AtomicU32::new(0) }; 2];
    let both_words = [(&words[0], 0), (&words[1], 0)];
    for _ in 0..ROUNDS {
        let mut wait = pending(domain.wait_any_async(both_words, &after(10)));
        both(
            || _ = system.driver().turn(),
            || {
                let woken = domain.wake(&words[1], 1);
                assert!(woken <= 1);
                match poll(&mut wait) {
                    Poll::Ready(Ok(index)) => assert_eq!((index, woken), (1, 1)),
                    Poll::Ready(Err(error)) => assert_eq!(error, Error::TimedOut),
                    Poll::Pending => assert_eq!(woken, 0),
                }
            },
        );
    }
}

#[test]
fn driver_turns_while_the_last_system_goes() {
    let system = system();
    let driver = system.driver().clone();
    while_it_turns(&driver, || {
        let word = AtomicU32::new(0);
        let domain: Domain = Domain::new(&system);
        let mut wait = Box::pin(domain.wait_async(&word, 0, &after(10)));
        _ = poll(&mut wait);
        drop(wait);
        drop(domain);
        drop(system);
    });
}
