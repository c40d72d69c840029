//! A signal of the host that is handled during a wait.

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use ufutex::{Error, Timeout, WaitOptions};

use crate::common::asleep::until;
use crate::common::domains::on_domains;
use crate::common::kernel::{PLAIN, interrupt, set_handlers};
use crate::common::places::{lasting_domain, words};
use crate::common::sleeping::Sleeping;

fn signal_does_not_end_a_wait() {
    set_handlers();
    let (domain, [word]) = (lasting_domain(), words());
    let waiting = Sleeping::start(move || domain.wait(word, 0));
    for _ in 0..5 {
        until("the waiter sleeps", || waiting.is_asleep());
        interrupt(waiting.tid(), PLAIN);
    }
    until("the waiter sleeps", || waiting.is_asleep());
    assert_eq!(domain.wake(word, usize::MAX), 1);
    assert_eq!(waiting.outcome(), Ok(()));
}

fn signal_does_not_move_the_end_of_a_timeout() {
    const LENGTH: Duration = Duration::from_millis(20);
    set_handlers();
    let (domain, [word]) = (lasting_domain(), words());
    let (done, last_signal) = channel::<()>();
    let begin = Instant::now();
    let options = WaitOptions::new().timeout(Timeout::After(LENGTH));
    let waiting = Sleeping::start(move || {
        let result = domain.wait_with(word, 0, &options);
        let end = Instant::now();
        // Keeps the thread alive until the last signal has been sent. `recv` fails when `done` is dropped.
        _ = last_signal.recv();
        (result, end)
    });
    while begin.elapsed() < LENGTH / 2 {
        interrupt(waiting.tid(), PLAIN);
    }
    drop(done);
    let (result, end) = waiting.outcome();
    assert_eq!(result, Err(Error::TimedOut));
    assert!(end - begin >= LENGTH);
    assert_eq!(domain.wake(word, usize::MAX), 0);
}

on_domains![signal_does_not_end_a_wait, signal_does_not_move_the_end_of_a_timeout];
