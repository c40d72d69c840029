//! Interrupting a thread's wait.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use ufutex::{Domain, DomainOptions, Error, Interrupt, Task, Timeout, WaitOptions};

use crate::common::domains::{domain, on_domains};
use crate::common::places::{Word, forever, lasting_domain, lasting_task, words};
use crate::common::sleeping::Sleeping;

const PLAINLY: WaitOptions = WaitOptions::new();

fn raised_interrupt_ends_all_waits_until_it_is_cleared() {
    let (domain, interrupt) = (domain(), Interrupt::new());
    let [word] = words();
    assert!(!interrupt.is_raised());
    interrupt.raise();
    interrupt.raise();
    assert!(interrupt.is_raised());
    for _ in 0..2 {
        assert_eq!(domain.wait_interruptible(word, 0, &PLAINLY, &interrupt), Err(Error::Interrupted));
        assert_eq!(domain.wait_interruptible(word, 1, &PLAINLY, &interrupt), Err(Error::Again), "compared before");
        assert_eq!(domain.wake(word, usize::MAX), 0);
    }
    interrupt.clear();
    assert!(!interrupt.is_raised());
    let soon = PLAINLY.timeout(Timeout::After(Duration::from_millis(2)));
    assert_eq!(domain.wait_interruptible(word, 0, &soon, &interrupt), Err(Error::TimedOut));
}

fn all_tasks_of_a_domain_are_interrupted_and_no_others() {
    let domain = lasting_domain();
    let other: &Domain = forever(Domain::in_namespace(&domain.pid_namespace(), DomainOptions::new()));
    let [word, lock, of_others]: [Word; 3] = words();
    // The smallest and the largest TID are among them.
    let tids = [1, 2, 31, 32, 33, 1 << 20, (1 << 30) - 1];
    let sleeps =
        |task: &'static Task| Sleeping::new(move || domain.wait_interruptible(word, 0, &PLAINLY, task.interrupt()));
    let threads = tids.map(|tid| sleeps(lasting_task(domain, tid)));
    let owner = lasting_task(domain, 5);
    assert_eq!(domain.lock_pi(lock, owner), Ok(()));
    let waiter = lasting_task(domain, 6);
    let for_lock = Sleeping::new(move || domain.lock_pi(lock, waiter));
    let stranger = lasting_task(other, 7);
    let of_other = Sleeping::new(move || other.wait_interruptible(of_others, 0, &PLAINLY, stranger.interrupt()));
    let plain = Sleeping::new(move || domain.wait(word, 0));
    domain.interrupt_all();
    for thread in threads {
        assert_eq!(thread.outcome(), Err(Error::Interrupted));
    }
    assert_eq!(for_lock.outcome(), Err(Error::Interrupted));
    assert!(owner.interrupt().is_raised() && !stranger.interrupt().is_raised());
    assert_eq!(other.wake(of_others, 1), 1, "a task of another domain is not interrupted");
    assert_eq!(of_other.outcome(), Ok(()));
    assert_eq!(domain.wake(word, usize::MAX), 1, "a wait that no task makes is not interrupted");
    assert_eq!(plain.outcome(), Ok(()));
}

/// Another thread clears the interrupt as soon as it has raised it, when the waiter has had no time to look.
fn raised_interrupt_ends_the_wait_that_is_under_way_though_it_is_cleared_at_once() {
    const ROUNDS: usize = 200;
    let domain = lasting_domain();
    let [word] = words();
    let task = lasting_task(domain, 1);
    let owner = lasting_task(domain, 2);
    let [lock]: [Word; 1] = words();
    assert_eq!(domain.lock_pi(lock, owner), Ok(()));
    let interrupt = task.interrupt();
    for round in 0..ROUNDS {
        let thread = if round % 2 == 0 {
            Sleeping::new(move || domain.wait_interruptible(word, 0, &PLAINLY, interrupt))
        } else {
            Sleeping::new(move || domain.lock_pi(lock, task))
        };
        interrupt.raise();
        interrupt.clear();
        assert_eq!(thread.outcome(), Err(Error::Interrupted), "round {round}");
        assert!(!interrupt.is_raised());
    }
    // It is over for the waits that begin now.
    interrupt.raise();
    interrupt.clear();
    let soon = PLAINLY.timeout(Timeout::After(Duration::from_millis(2)));
    assert_eq!(domain.wait_interruptible(word, 0, &soon, interrupt), Err(Error::TimedOut));
}

fn two_threads_cannot_wait_with_one_interrupt() {
    let domain = lasting_domain();
    let [word, other] = words();
    let interrupt = forever(Interrupt::new());
    let thread = Sleeping::new(move || domain.wait_interruptible(word, 0, &PLAINLY, interrupt));
    assert_eq!(domain.wait_interruptible(other, 0, &PLAINLY, interrupt), Err(Error::Busy));
    assert_eq!(domain.wake(other, usize::MAX), 0);
    assert_eq!(domain.wake(word, 1), 1);
    assert_eq!(thread.outcome(), Ok(()));
    assert_eq!(domain.wait_interruptible(other, 1, &PLAINLY, interrupt), Err(Error::Again), "it is free again");
}

/// Races wakes with interrupts. The number of counted wakes must equal the number of waits that returned success.
fn no_wake_is_lost_to_an_interrupt_at_the_same_time() {
    const ROUNDS: usize = 400;
    let domain: &'static Domain = lasting_domain();
    let [word] = words();
    let interrupt = forever(Interrupt::new());
    let rounds = forever(AtomicUsize::new(0));
    let waiter = Sleeping::start(move || {
        let mut woken = 0;
        for _ in 0..ROUNDS {
            match domain.wait_interruptible(word, 0, &PLAINLY, interrupt) {
                Ok(()) => woken += 1,
                Err(error) => assert_eq!(error, Error::Interrupted),
            }
            interrupt.clear();
            rounds.fetch_add(1, SeqCst);
        }
        woken
    });
    let waker = std::thread::spawn(move || {
        let mut woken = 0;
        while rounds.load(SeqCst) < ROUNDS {
            woken += domain.wake(word, 1);
        }
        woken
    });
    while rounds.load(SeqCst) < ROUNDS {
        interrupt.raise();
        std::thread::yield_now();
    }
    assert_eq!(waiter.outcome(), waker.join().expect("it does not panic"));
}

/// An interrupt ends waits for PI locks. A wait that has failed for another reason returns its own error.
fn interrupt_of_a_task_ends_its_waits_for_locks() {
    let domain = lasting_domain();
    let [lock, condition]: [Word; 2] = words();
    let [owner, waiter] = [1, 2].map(|tid| lasting_task(domain, tid));
    assert_eq!(domain.lock_pi(lock, owner), Ok(()));
    for _ in 0..2 {
        let thread = Sleeping::new(move || domain.lock_pi(lock, waiter));
        waiter.interrupt().raise();
        assert_eq!(thread.outcome(), Err(Error::Interrupted));
        // An interrupt that was raised before the call ends it, too.
        assert_eq!(domain.lock_pi(lock, waiter), Err(Error::Interrupted));
        assert_eq!(domain.wait_requeue_pi(condition, 0, lock, waiter, &WaitOptions::new()), Err(Error::Interrupted));
        waiter.interrupt().clear();
        let thread = Sleeping::new(move || domain.wait_requeue_pi(condition, 0, lock, waiter, &WaitOptions::new()));
        waiter.interrupt().raise();
        assert_eq!(thread.outcome(), Err(Error::Interrupted));
        waiter.interrupt().clear();
        // After the requeue the result is EAGAIN, because the word may have changed and the wait cannot be restarted.
        let thread = Sleeping::new(move || domain.wait_requeue_pi(condition, 0, lock, waiter, &WaitOptions::new()));
        assert_eq!(domain.cmp_requeue_pi(condition, 0, lock, 0), Ok(1));
        waiter.interrupt().raise();
        assert_eq!(thread.outcome(), Err(Error::Again));
        waiter.interrupt().clear();
    }
    assert_eq!(domain.unlock_pi(lock, owner), Ok(()));
    assert_eq!(lock.load(SeqCst), 0, "no waiter is left");
    // A free lock is taken without a wait, so an interrupt has no effect.
    waiter.interrupt().raise();
    assert_eq!(domain.lock_pi(lock, waiter), Ok(()));
}

on_domains![
    raised_interrupt_ends_all_waits_until_it_is_cleared,
    all_tasks_of_a_domain_are_interrupted_and_no_others,
    raised_interrupt_ends_the_wait_that_is_under_way_though_it_is_cleared_at_once,
    two_threads_cannot_wait_with_one_interrupt,
    no_wake_is_lost_to_an_interrupt_at_the_same_time,
    interrupt_of_a_task_ends_its_waits_for_locks,
];
