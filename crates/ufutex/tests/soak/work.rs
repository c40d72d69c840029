//! The work of each worker, in randomly chosen guests.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::task::{Context, Poll};
use std::time::Duration;

use ufutex::timer::{Expiry, Notify, TimerClock, Timers};
use ufutex::{
    Domain, Error, Requeue, Timeout, Wait, WaitOptions,
    pi::{OWNER_DIED, TID_MASK},
};

use crate::Soak;
use crate::common::PATIENCE;
use crate::common::random::Random;
use crate::common::waiters::{bits, idle, queue, queue_with};
use crate::common::waker::Notified;
use crate::guest::{Guest, LOCKS, WORDS};
use crate::ledger::{BOOKS, Book, now};
use crate::workers::Desk;

const BITSETS: [u32; 4] = [1, 2, 3, u32::MAX];

/// Adds a short timeout.
fn soon(options: WaitOptions, random: &mut Random) -> WaitOptions {
    options.timeout(Timeout::After(Duration::from_micros(random.of(&[0, 10, 100, 1000]))))
}

/// Blocking waits, most with a short timeout, some without one.
pub fn sleep(soak: &Soak, desk: &Desk, mut random: Random) {
    while desk.is_running() {
        let (guest, word) = (soak.guest(&mut random), random.below(WORDS));
        let options = bits(random.of(&BITSETS)).realtime_priority(random.of(&[0, 0, 0, 1, 50]));
        let options = if random.one_in(4) { options } else { soon(options, &mut random) };
        match desk.waiting_on(word, || guest.domain.wait_with(&guest.words[word], 0, &options)) {
            Ok(()) => guest.receive(),
            Err(error) => assert_eq!(error, Error::TimedOut),
        }
    }
}

/// Custom waiters that are cancelled.
pub fn cancel(soak: &Soak, desk: &Desk, mut random: Random) {
    while desk.is_running() {
        let guest = soak.guest(&mut random);
        let mut waiters = idle(1 + random.below(12));
        let mut queued: Vec<_> = waiters
            .iter_mut()
            .map(|waiter| {
                queue_with(&guest.domain, waiter, &guest.words[random.below(WORDS)], bits(random.of(&BITSETS)))
            })
            .collect();
        while !queued.is_empty() {
            if !queued.swap_remove(random.below(queued.len())).cancel() {
                guest.receive();
            }
        }
    }
}

type Waiting<'s> = (&'s Guest, Arc<Notified>, Pin<Box<Wait<'s, &'s AtomicU32>>>);

/// Futures with a timeout, which the driver's thread ends. They are polled only after their waker has been woken.
pub fn poll(soak: &Soak, desk: &Desk, mut random: Random) {
    let mut waits: Vec<Waiting<'_>> = Vec::new();
    while desk.is_running() || !waits.is_empty() {
        if desk.is_running() && waits.len() < 16 {
            let (guest, (notified, waker)) = (soak.guest(&mut random), Notified::new());
            let options = soon(bits(random.of(&BITSETS)), &mut random);
            let mut wait = Box::pin(guest.domain.wait_async(&guest.words[random.below(WORDS)], 0, &options));
            match wait.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Pending => waits.push((guest, notified, wait)),
                Poll::Ready(result) => note(guest, result),
            }
        }
        let notified = waits.extract_if(.., |(_, notified, _)| notified.times() > 0).collect::<Vec<_>>();
        for (guest, _, mut wait) in notified {
            let (notified, waker) = Notified::new();
            match wait.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Pending => waits.push((guest, notified, wait)),
                Poll::Ready(result) => note(guest, result),
            }
        }
        if waits.len() == 16 || !desk.is_running() {
            std::thread::yield_now();
        }
    }
}

fn note(guest: &Guest, result: Result<(), Error>) {
    match result {
        Ok(()) => guest.receive(),
        Err(error) => assert_eq!(error, Error::TimedOut),
    }
}

/// Wakes and requeues.
pub fn wake(soak: &Soak, desk: &Desk, mut random: Random) {
    while desk.is_running() {
        let guest = soak.guest(&mut random);
        let count = random.of(&[1, 1, 1, 2, 3, usize::MAX]);
        if random.one_in(4) {
            let [from, to] = [(); 2].map(|()| &guest.words[random.below(WORDS)]);
            let moved = guest.domain.cmp_requeue(from, 0, to, Requeue { wake: random.below(3), requeue: count });
            guest.count(moved.expect("the word is 0 and has no PI waiter").woken);
        } else {
            guest.wake(random.below(WORDS), count, random.of(&BITSETS));
        }
        if random.one_in(16) {
            std::thread::yield_now();
        }
    }
}

/// Resizes, also to the global table.
pub fn resize(soak: &Soak, desk: &Desk, mut random: Random) {
    while desk.is_running() {
        crate::workers::resize(&soak.guest(&mut random).domain, &mut random);
    }
}

/// Makes one task after another. Each takes a lock, and every second one exits without unlocking.
pub fn lock(soak: &Soak, desk: &Desk, mut random: Random) {
    while desk.is_running() {
        let (guest, lock, tid) = (soak.guest(&mut random), random.below(LOCKS), soak.next_tid());
        let task = guest.domain.task(tid).expect("no TID comes twice");
        let word = &guest.locks[lock].word;
        let timeout = random.one_in(3).then(|| Timeout::After(Duration::from_micros(100)));
        let result = guest.domain.lock_pi_with(word, &task, &WaitOptions::new().maybe_timeout(timeout));
        match result {
            Ok(()) => guest.be_inside(lock, tid),
            // No waiter took the lock over, or the new owner has not been polled yet. The word holds the dead TID.
            Err(error) => {
                let may_be = [Error::NoTask, Error::Invalid, Error::TimedOut];
                assert!(may_be.contains(&error), "{error}");
            }
        }
        if result == Ok(()) && random.one_in(2) {
            assert_eq!(guest.domain.unlock_pi(word, &task), Ok(()));
        }
        drop(task);
        if result == Err(Error::NoTask) {
            // Stores the value that a walk of the dead task's robust list would have stored.
            let value = word.load(SeqCst);
            if value & TID_MASK != 0 && guest.domain.task(value & TID_MASK).is_ok() {
                _ = word.compare_exchange(value, OWNER_DIED, SeqCst, SeqCst);
            }
        }
    }
}

/// Makes and drops domains, each with waiters, a task and timers of its own.
pub fn come_and_go(soak: &Soak, desk: &Desk, mut random: Random) {
    while desk.is_running() {
        let domain = Domain::new(&soak.system);
        let words: Vec<_> = (0..1 + random.of(&[1, 10, 100])).map(|_| AtomicU32::new(0)).collect();
        let mut waiters = idle(words.len());
        let queued: Vec<_> =
            std::iter::zip(&words, &mut waiters).map(|(word, waiter)| queue(&domain, waiter, word)).collect();
        for (word, mut queued) in std::iter::zip(&words, queued) {
            assert_eq!(domain.wake(word, usize::MAX), 1);
            assert!(!queued.cancel(), "a wake was counted, and not received");
        }
        let task = domain.task(soak.next_tid()).expect("no TID comes twice");
        assert_eq!(domain.lock_pi(&words[0], &task), Ok(()));
        let timers = Timers::new(soak.system.driver(), soak.ledger.clone()).expect("there is memory");
        let id = timers.create(TimerClock::Monotonic, Some(Notify::None)).expect("there is room");
        let value = Duration::from_micros(random.of(&[1, 50, 10_000_000]));
        timers.settime(id, Expiry::After(value), Duration::ZERO).expect("it is there");
        drop(waiters);
        soak.domains.fetch_add(1, Relaxed);
    }
}

/// A running timer and the number of its record.
struct Running {
    id: i32,
    book: usize,
    ends: Duration,
}

/// Makes and deletes timers. Before a timer is deleted, it must have delivered every expiration that is due by the
/// clock.
pub fn set_timers(soak: &Soak, desk: &Desk, mut random: Random) {
    let mut running: Vec<Running> = Vec::new();
    let mut free: Vec<usize> = (0..BOOKS).collect();
    while desk.is_running() || !running.is_empty() {
        if desk.is_running()
            && let Some(book) = free.pop()
        {
            running.push(set_timer(soak, book, &mut random));
        }
        let ended: Vec<_> = running.extract_if(.., |timer| timer.ends <= now() || !desk.is_running()).collect();
        for Running { id, book, .. } in ended {
            let seen = now();
            let is_told = || {
                let book = soak.ledger.book(book);
                book.delivered >= book.due(seen)
            };
            let begin = std::time::Instant::now();
            while !is_told() {
                assert!(begin.elapsed() < PATIENCE, "a timer that is due does not expire");
                std::thread::sleep(Duration::from_micros(100));
            }
            assert_eq!(soak.timers.delete(id), Ok(()));
            free.push(book);
        }
        if free.is_empty() {
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}

fn set_timer(soak: &Soak, book: usize, random: &mut Random) -> Running {
    let first = now() + Duration::from_micros(random.of(&[0, 100, 5000]));
    let interval = Duration::from_micros(random.of(&[0, 300, 1000, 7000]));
    let notify = Some(Notify::Signal { signal: 1, value: book as u64 });
    let id = soak.timers.create(TimerClock::Monotonic, notify).expect("there is room");
    *soak.ledger.book(book) = Book { first, interval, delivered: 0 };
    soak.timers.settime(id, Expiry::At(first), interval).expect("it is there");
    Running { id, book, ends: first + Duration::from_millis(random.below(100) as u64) }
}
