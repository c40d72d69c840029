//! A signal that is handled during a wait.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use ufutex::{Error, Timeout, WaitOptions};

use crate::common::asleep::until;
use crate::common::domains::{domain, on_domains};
use crate::common::kernel::{PLAIN, interrupt, set_handlers};
use crate::common::sleeping::Sleeping;
use crate::futex::{PLAINLY, Sharing, word};
use crate::kernel::kernel;

fn signal_does_not_end_a_wait() {
    set_handlers();
    let domain = Arc::new(domain());
    let word = word(0);
    let its_domain = domain.clone();
    let waiting = Sleeping::start(move || its_domain.wait(word, 0));
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
    let domain = Arc::new(domain());
    let word = word(0);
    let its_domain = domain.clone();
    let (done, last_signal) = channel::<()>();
    let begin = Instant::now();
    let options = WaitOptions::new().timeout(Timeout::After(LENGTH));
    let waiting = Sleeping::start(move || {
        let result = its_domain.wait_with(word, 0, &options);
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

#[test]
fn signal_ends_a_wait_in_the_kernel_with_eintr() {
    set_handlers();
    for sharing in [Sharing::Private, Sharing::Shared] {
        let word = word(0);
        let waiting = Sleeping::start(move || kernel(sharing).wait(word, 0, PLAINLY));
        waiting.until_asleep(|number, args| number == libc::SYS_futex && args[0] == word.as_ptr().addr() as u64);
        interrupt(waiting.tid(), PLAIN);
        assert_eq!(waiting.outcome(), Err(libc::EINTR));
    }
}
