//! Like `conservation`, with waiters that are requeued, wait on two words, or are interrupted. Each wake is counted by
//! the waker and by the waiter, and no requeue loses a waiter.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use shuttle::sync::Arc;
use shuttle::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use shuttle::thread;
use ufutex_shuttle::{Interrupt, Requeue, Scheme, WaitOptions};

use crate::support::{Word, World, catches, check, some_time};

const WAITERS: usize = 5;
const ROUNDS: usize = 3;

struct Words {
    world: Arc<World>,
    /// In another bucket than the words of the world.
    far: Word,
    waiters_left: AtomicUsize,
}

impl Words {
    fn all(&self) -> [&Word; 3] {
        let [one, two] = &self.world.words;
        [one, two, &self.far]
    }
}

/// Waits in one of five ways. Returns whether a wake was received.
fn wait(words: &Words, way: usize) -> bool {
    let (all, domain) = (words.all(), &words.world.domain);
    match way % 5 {
        0 => domain.wait(all[0], 0).is_ok(),
        1 => domain.wait_with(all[way % 3], 0, &some_time()).is_ok(),
        2 => {
            let mut future = pin!(domain.wait_async(all[way % 3], 0, &WaitOptions::new()));
            let mut poll = || future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            let is_early = poll().is_ready();
            thread::yield_now();
            // A wake that is not reported is passed on to the next waiter. If there is none, it was counted in vain.
            is_early || poll() == Poll::Ready(Ok(()))
        }
        3 => domain.wait_any(&[(all[0], 0), (all[2], 0)], &WaitOptions::new()).is_ok(),
        _ => {
            let interrupt = Arc::new(Interrupt::new());
            let signal = {
                let interrupt = interrupt.clone();
                thread::spawn(move || interrupt.raise())
            };
            let result = domain.wait_interruptible(all[way % 3], 0, &WaitOptions::new(), &interrupt);
            signal.join().unwrap();
            result.is_ok()
        }
    }
}

/// Requeues waiters in a circle and wakes them until all have finished. Returns the number of woken waiters.
fn move_and_wake(words: &Words, by: usize) -> usize {
    let (all, domain) = (words.all(), &words.world.domain);
    let mut woken = 0;
    let mut at = by;
    while words.waiters_left.load(SeqCst) != 0 {
        let (from, to) = (all[at % 3], all[(at + by) % 3]);
        woken +=
            domain.cmp_requeue(from, 0, to, Requeue { wake: by - 1, requeue: by }).expect("the word holds 0").woken;
        woken += domain.wake(to, 1);
        at += 1;
        thread::yield_now();
    }
    woken
}

/// `ways` are the kinds of waits. Kind 2 may drop a wake, and kind 3 may count two wakes as one.
fn crowd(scheme: Scheme, ways: &'static [usize], sizes: &'static [usize]) {
    let words =
        Arc::new(Words { world: World::of(scheme), far: Word::at(0x1080), waiters_left: AtomicUsize::new(WAITERS) });
    let waiters: Vec<_> = (0..WAITERS)
        .map(|waiter| {
            let words = words.clone();
            thread::spawn(move || {
                let way = |round: usize| ways[(waiter + round) % ways.len()];
                let received = (0..ROUNDS).filter(|&round| wait(&words, way(round))).count();
                words.waiters_left.fetch_sub(1, SeqCst);
                received
            })
        })
        .collect();
    let wakers: Vec<_> = [1, 2]
        .into_iter()
        .map(|by| {
            let words = words.clone();
            thread::spawn(move || move_and_wake(&words, by))
        })
        .collect();
    words.world.resize(sizes);
    let received: usize = waiters.into_iter().map(|waiter| waiter.join().unwrap()).sum();
    let woken: usize = wakers.into_iter().map(|waker| waker.join().unwrap()).sum();
    let may_drop = ways.iter().any(|way| matches!(way, 2 | 3));
    assert!(received == woken || (may_drop && received < woken), "{received} of {woken} wakes were received");
    assert!(words.all().iter().all(|word| words.world.domain.wake(*word, usize::MAX) == 0), "nobody is left");
}

/// No kind here drops a wake, so the sums are equal.
fn exact() {
    crowd(Scheme::Live, &[0, 1, 4, 6, 11], &[4, 0, 2]);
}

fn all_ways() {
    crowd(Scheme::Live, &[0, 1, 2, 3, 4, 7], &[0, 2, 4]);
}

#[test]
fn no_wake_is_lost_with_a_waiter_that_is_moved() {
    check(300, exact);
}

#[test]
fn nobody_is_left_behind_by_requeues() {
    check(250, all_ways);
    check(60, || crowd(Scheme::Atomic, &[0, 1, 3, 4], &[4, 0]));
    check(60, || crowd(Scheme::PerCpu, &[0, 1, 3, 4], &[4, 0]));
}

catches!(requeue_catches_timeout_loses_wake, TimeoutLosesWake, 300, exact);
catches!(requeue_catches_cancel_skips_recheck, CancelSkipsRecheck, 300, exact);
catches!(requeue_catches_requeue_lets_go, RequeueLetsGo, 300, exact);
catches!(requeue_catches_sleeper_forgets, SleeperForgets, 250, all_ways);
