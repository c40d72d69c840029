//! Threads, tasks and custom waiters wait, time out and are cancelled while other threads wake and resize. For each
//! word, the sum of the wakes' results must equal the number of woken waits.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use ufutex::{Domain, DomainOptions, Error, Timeout, Wait};

use crate::common::domains::system;
use crate::common::random::Random;
use crate::common::waiters::{bits, idle, nonzero, queue, queue_with};
use crate::common::waker::Notified;
use crate::share;
use crate::workers::{Desk, Workers, resize};

const WORDS: usize = 6;
const BITSETS: [u32; 4] = [1, 2, 3, u32::MAX];

struct Accounts {
    domain: Domain,
    /// Words that always hold 0. Some share a cache line and therefore a bucket.
    words: [AtomicU32; WORDS],
    /// Sum of the results of the wakes of each word.
    woken: [AtomicUsize; WORDS],
    /// Number of waits on each word that have ended by a wake.
    received: [AtomicUsize; WORDS],
}

impl Accounts {
    fn new(options: DomainOptions) -> Arc<Self> {
        Arc::new(Self {
            domain: Domain::with_options(&system(), options),
            words: [const { AtomicU32::new(0) }; WORDS],
            woken: [const { AtomicUsize::new(0) }; WORDS],
            received: [const { AtomicUsize::new(0) }; WORDS],
        })
    }

    fn wake(&self, word: usize, count: usize, bitset: u32) {
        let woken = self.domain.wake_bitset(&self.words[word], count, nonzero(bitset));
        assert!(woken <= count);
        self.woken[word].fetch_add(woken, Relaxed);
    }

    fn receive(&self, word: usize) {
        self.received[word].fetch_add(1, Relaxed);
    }

    fn wake_all(&self) {
        (0..WORDS).for_each(|word| self.wake(word, usize::MAX, u32::MAX));
    }

    fn balance(&self) {
        for word in 0..WORDS {
            let (woken, received) = (self.woken[word].load(Relaxed), self.received[word].load(Relaxed));
            assert_eq!(woken, received, "wakes counted and received on word {word}");
        }
        assert!(self.woken.iter().any(|woken| woken.load(Relaxed) > 0), "no waiter was ever woken");
    }
}

/// Blocking waits, most with a short timeout, some without one.
fn sleep(accounts: &Accounts, desk: &Desk, mut random: Random) {
    while desk.is_running() {
        let word = random.below(WORDS);
        let mut options = bits(random.of(&BITSETS)).realtime_priority(random.of(&[0, 0, 0, 1, 50]));
        if !random.one_in(4) {
            let length = Duration::from_micros(random.below(100) as u64);
            options = options.timeout(Timeout::After(length));
        }
        match desk.waiting_on(word, || accounts.domain.wait_with(&accounts.words[word], 0, &options)) {
            Ok(()) => accounts.receive(word),
            Err(error) => assert_eq!(error, Error::TimedOut),
        }
    }
}

/// Custom waiters that are cancelled.
fn cancel(accounts: &Accounts, desk: &Desk, mut random: Random) {
    while desk.is_running() {
        let mut waiters = idle(1 + random.below(12));
        let mut queued: Vec<_> = waiters
            .iter_mut()
            .map(|waiter| {
                let word = random.below(WORDS);
                let options = bits(random.of(&BITSETS));
                (word, queue_with(&accounts.domain, waiter, &accounts.words[word], options))
            })
            .collect();
        while !queued.is_empty() {
            let (word, mut handle) = queued.swap_remove(random.below(queued.len()));
            if !handle.cancel() {
                accounts.receive(word);
            }
        }
    }
}

type Task<'d> = (usize, Arc<Notified>, Pin<Box<Wait<'d, &'d AtomicU32>>>);

/// Futures that are polled at random times with a new waker each time. At the end they are polled only after the last
/// of these wakers has been woken.
fn poll(accounts: &Accounts, desk: &Desk, mut random: Random) {
    let mut tasks: Vec<Task<'_>> = Vec::new();
    while desk.is_running() || !tasks.is_empty() {
        if desk.is_running() && tasks.len() < 16 {
            let word = random.below(WORDS);
            let wait = accounts.domain.wait_async(&accounts.words[word], 0, &bits(random.of(&BITSETS)));
            tasks.push((word, Arc::default(), Box::pin(wait)));
            let (_, notified, wait) = tasks.last_mut().expect("just pushed");
            let _ = wait.as_mut().poll(&mut Context::from_waker(&notified.clone().into()));
        }
        let at = random.below(tasks.len());
        let (word, notified, wait) = &mut tasks[at];
        if !desk.is_running() && notified.times() == 0 {
            std::thread::yield_now();
            continue;
        }
        let (new, waker) = Notified::new();
        match wait.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Pending => *notified = new,
            Poll::Ready(result) => {
                assert_eq!(result, Ok(()));
                accounts.receive(*word);
                drop(tasks.swap_remove(at));
            }
        }
        if random.one_in(8) {
            std::thread::yield_now();
        }
    }
}

fn wake(accounts: &Accounts, desk: &Desk, mut random: Random) {
    while desk.is_running() {
        let count = random.of(&[1, 1, 1, 2, 3, usize::MAX]);
        accounts.wake(random.below(WORDS), count, random.of(&BITSETS));
        if random.one_in(16) {
            std::thread::yield_now();
        }
    }
}

fn resize_it(accounts: &Accounts, desk: &Desk, mut random: Random) {
    while desk.is_running() {
        resize(&accounts.domain, &mut random);
    }
}

/// One waiter on each of many words. A wake must find each of them while the table grows.
fn crowd(accounts: &Accounts, desk: &Desk, mut random: Random) {
    #[repr(align(64))]
    struct Line(AtomicU32);
    while desk.is_running() {
        let lines: Vec<_> = (0..1 + random.of(&[1, 10, 400])).map(|_| Line(AtomicU32::new(0))).collect();
        let mut waiters = idle(lines.len());
        let queued: Vec<_> = std::iter::zip(&lines, &mut waiters)
            .map(|(line, waiter)| queue(&accounts.domain, waiter, &line.0))
            .collect();
        for (line, mut queued) in std::iter::zip(&lines, queued) {
            assert_eq!(accounts.domain.wake(&line.0, usize::MAX), 1);
            assert!(!queued.cancel());
        }
    }
}

/// Runs all workers for `length`, with resizes if the scheme supports them.
fn wakes_balance(options: DomainOptions, length: Duration) {
    let accounts = Accounts::new(options);
    let mut workers = Workers::new(accounts.clone());
    workers.add("a sleeper", sleep);
    workers.add("another sleeper", sleep);
    workers.add("canceller", cancel);
    workers.add("the one with the tasks", poll);
    workers.add("a waker", wake);
    workers.add("many waiters", crowd);
    if crate::common::domains::can_resize() {
        workers.add("resizer", resize_it);
    }
    workers.run(length);
    workers.stop(Accounts::wake_all);
    accounts.balance();
}

/// As above, while the size policy makes the table grow, repeatedly from a new domain.
fn wakes_balance_during_growth(length: Duration) {
    const DOMAINS: u32 = 8;
    for _ in 0..DOMAINS {
        let accounts = Accounts::new(DomainOptions::new());
        let mut workers = Workers::new(accounts.clone());
        workers.add("a sleeper", sleep);
        workers.add("canceller", cancel);
        workers.add("a waker", wake);
        workers.add("many waiters", crowd);
        workers.add("more waiters", crowd);
        workers.run(length / DOMAINS);
        workers.stop(Accounts::wake_all);
        accounts.balance();
        assert!(accounts.domain.slots() > 16, "{} slots", accounts.domain.slots());
    }
}

#[test]
fn wakes_balance_in_the_end() {
    wakes_balance(DomainOptions::new(), share(6));
}

#[test]
fn wakes_balance_without_the_early_return() {
    wakes_balance(DomainOptions::new().early_return(false), share(2));
}

#[test]
fn wakes_balance_with_waiters_that_spin() {
    wakes_balance(DomainOptions::new().spin(Duration::from_micros(200)), share(2));
}

#[test]
#[cfg_attr(feature = "counted", ignore = "the scheme does not grow by load")]
fn wakes_balance_while_the_policy_makes_the_table_grow() {
    wakes_balance_during_growth(share(4));
}
