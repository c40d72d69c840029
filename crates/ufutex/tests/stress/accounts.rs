//! Threads, tasks and custom waiters that wait, time out and give up while others wake and resize. For each word, the
//! wakes that were counted are the wakes that were received: none is lost, none doubled.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use ufutex::layout::{Layout, Lean, Packed, Split};
use ufutex::scheme::{Atomic, Fixed, Live, PerCpu, Scheme};
use ufutex::{Domain, Error, Options, Timeout, Wait};

use crate::common::domains::system;
use crate::common::waiters::{bits, idle, nonzero, queue, queue_with};
use crate::common::waker::Told;
use crate::random::Random;
use crate::share;
use crate::workers::{Desk, Workers, resize};

const WORDS: usize = 6;
const BITSETS: [u32; 4] = [1, 2, 3, u32::MAX];

struct Accounts<S: Scheme<L>, L: Layout> {
    domain: Domain<S, L>,
    /// Always 0. Some share a cache line, and so a bucket.
    words: [AtomicU32; WORDS],
    /// What the wakes on each word have answered.
    woken: [AtomicUsize; WORDS],
    /// How many waits on each word have ended by a wake.
    received: [AtomicUsize; WORDS],
}

impl<S: Scheme<L>, L: Layout> Accounts<S, L> {
    fn new(options: Options) -> Arc<Self> {
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
        assert!(self.woken.iter().any(|woken| woken.load(Relaxed) > 0), "nobody was ever woken");
    }
}

/// Threads that sleep: most for a moment, some until they are woken.
fn sleep<S: Scheme<L>, L: Layout>(accounts: &Accounts<S, L>, desk: &Desk, mut random: Random) {
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

/// Custom waiters that give up.
fn cancel<S: Scheme<L>, L: Layout>(accounts: &Accounts<S, L>, desk: &Desk, mut random: Random) {
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
            let (word, handle) = queued.swap_remove(random.below(queued.len()));
            if !handle.cancel() {
                accounts.receive(word);
            }
        }
    }
}

type Task<'d, S, L> = (usize, Arc<Told>, Pin<Box<Wait<'d, &'d AtomicU32, S, L>>>);

/// Tasks that are polled at any time, with ever new wakers; in the end only when the last of these has been told.
fn poll<S: Scheme<L>, L: Layout>(accounts: &Accounts<S, L>, desk: &Desk, mut random: Random) {
    let mut tasks: Vec<Task<'_, S, L>> = Vec::new();
    while desk.is_running() || !tasks.is_empty() {
        if desk.is_running() && tasks.len() < 16 {
            let word = random.below(WORDS);
            let wait = accounts.domain.wait_async(&accounts.words[word], 0, bits(random.of(&BITSETS)));
            tasks.push((word, Arc::default(), Box::pin(wait)));
            let (_, told, wait) = tasks.last_mut().expect("just pushed");
            let _ = wait.as_mut().poll(&mut Context::from_waker(&told.clone().into()));
        }
        let at = random.below(tasks.len());
        let (word, told, wait) = &mut tasks[at];
        if !desk.is_running() && told.times() == 0 {
            std::thread::yield_now();
            continue;
        }
        let (new, waker) = Told::new();
        match wait.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Pending => *told = new,
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

fn wake<S: Scheme<L>, L: Layout>(accounts: &Accounts<S, L>, desk: &Desk, mut random: Random) {
    while desk.is_running() {
        let count = random.of(&[1, 1, 1, 2, 3, usize::MAX]);
        accounts.wake(random.below(WORDS), count, random.of(&BITSETS));
        if random.one_in(16) {
            std::thread::yield_now();
        }
    }
}

fn resize_it<S: Scheme<L>, L: Layout>(accounts: &Accounts<S, L>, desk: &Desk, mut random: Random) {
    while desk.is_running() {
        resize(&accounts.domain, &mut random);
    }
}

/// Waiters on many words of their own, each of which a wake finds wherever the table has grown to meanwhile.
fn crowd<S: Scheme<L>, L: Layout>(accounts: &Accounts<S, L>, desk: &Desk, mut random: Random) {
    #[repr(align(64))]
    struct Line(AtomicU32);
    while desk.is_running() {
        let lines: Vec<_> = (0..1 + random.of(&[1, 10, 400])).map(|_| Line(AtomicU32::new(0))).collect();
        let mut waiters = idle(lines.len());
        let queued: Vec<_> = std::iter::zip(&lines, &mut waiters)
            .map(|(line, waiter)| queue(&accounts.domain, waiter, &line.0))
            .collect();
        for (line, queued) in std::iter::zip(&lines, queued) {
            assert_eq!(accounts.domain.wake(&line.0, usize::MAX), 1);
            assert!(!queued.cancel());
        }
    }
}

/// Everybody at once, for so long; on tables that are resized, if the scheme can.
fn wakes_balance<S: Scheme<L>, L: Layout>(options: Options, length: Duration) {
    let accounts = Accounts::<S, L>::new(options);
    let mut workers = Workers::new(accounts.clone());
    workers.add("a sleeper", sleep);
    workers.add("another sleeper", sleep);
    workers.add("the one who cancels", cancel);
    workers.add("the one with the tasks", poll);
    workers.add("a waker", wake);
    workers.add("a crowd", crowd);
    if S::NAME != "fixed" {
        workers.add("the one who resizes", resize_it);
    }
    workers.run(length);
    workers.stop(Accounts::wake_all);
    accounts.balance();
}

/// The same while the size policy makes the table grow, again and again from cold.
fn wakes_balance_during_growth(length: Duration) {
    const DOMAINS: u32 = 8;
    for _ in 0..DOMAINS {
        let accounts = Accounts::<Live, Lean>::new(Options::new());
        let mut workers = Workers::new(accounts.clone());
        workers.add("a sleeper", sleep);
        workers.add("the one who cancels", cancel);
        workers.add("a waker", wake);
        workers.add("a crowd", crowd);
        workers.add("another crowd", crowd);
        workers.run(length / DOMAINS);
        workers.stop(Accounts::wake_all);
        accounts.balance();
        assert!(accounts.domain.slots() > 16, "{} slots", accounts.domain.slots());
    }
}

macro_rules! balances {
    ($($name:ident: $scheme:ident, $layout:ident, $parts:expr;)*) => {$(
        #[test]
        fn $name() {
            wakes_balance::<$scheme, $layout>(Options::new(), share($parts));
        }
    )*};
}

balances! {
    wakes_balance_on_live_lean: Live, Lean, 6;
    wakes_balance_on_live_packed: Live, Packed, 1;
    wakes_balance_on_live_split: Live, Split, 1;
    wakes_balance_on_fixed_lean: Fixed, Lean, 1;
    wakes_balance_on_fixed_packed: Fixed, Packed, 1;
    wakes_balance_on_fixed_split: Fixed, Split, 1;
    wakes_balance_on_atomic_lean: Atomic, Lean, 3;
    wakes_balance_on_atomic_packed: Atomic, Packed, 1;
    wakes_balance_on_atomic_split: Atomic, Split, 1;
    wakes_balance_on_percpu_lean: PerCpu, Lean, 3;
    wakes_balance_on_percpu_packed: PerCpu, Packed, 1;
    wakes_balance_on_percpu_split: PerCpu, Split, 1;
}

#[test]
fn wakes_balance_on_live_lean_without_the_early_return() {
    wakes_balance::<Live, Lean>(Options::new().early_return(false), share(2));
}

#[test]
fn wakes_balance_while_the_policy_makes_the_table_grow() {
    wakes_balance_during_growth(share(4));
}
