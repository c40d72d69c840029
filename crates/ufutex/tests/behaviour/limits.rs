//! Limits that keep a guest in its place.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Waker};

use ufutex::layout::{Layout, Lean};
use ufutex::scheme::{Live, Scheme};
use ufutex::{Config, Domain, Error, ObjectId, Options, Shared, System, WaitOptions, Waiter};

use crate::common::domains::{on_every_domain, on_every_resizable_domain, system};
use crate::common::waiters::{idle, queue};

const OBJECT: ObjectId = ObjectId::new(7).unwrap();

fn limited<S: Scheme<L>, L: Layout>(waiters: usize) -> Domain<S, L> {
    Domain::with_options(&system(), Options::new().max_waiters(waiters))
}

fn waiter_beyond_the_limit_is_refused_whatever_it_is<S: Scheme<L>, L: Layout>() {
    let domain = limited::<S, L>(2);
    let (word, other) = (AtomicU32::new(0), AtomicU32::new(0));
    let mut waiters = idle(2);
    let queued: Vec<_> = waiters.iter_mut().map(|waiter| queue(&domain, waiter, &word)).collect();
    assert_eq!(domain.waiting(), 2);
    assert_eq!(domain.wait(&other, 0), Err(Error::NoMemory));
    assert_eq!(domain.wait(Shared::address_space(&other), 0), Err(Error::NoMemory));
    let mut third = pin!(Waiter::new());
    assert_eq!(domain.prepare(third.as_mut(), &other, 0, &WaitOptions::new()).err(), Some(Error::NoMemory));
    let mut task = pin!(domain.wait_async(&other, 0, WaitOptions::new()));
    let mut context = Context::from_waker(Waker::noop());
    assert_eq!(task.as_mut().poll(&mut context), Poll::Ready(Err(Error::NoMemory)));
    assert_eq!((domain.counters().refused_waiters, domain.waiting()), (4, 2));
    // What waits for nobody is not refused.
    assert_eq!(domain.wait(&other, 1), Err(Error::Again));
    assert_eq!(domain.wake(&word, usize::MAX), 2);
    assert!(queued.iter().all(ufutex::Queued::is_woken));
}

fn room_comes_back_when_a_waiter_is_idle_again<S: Scheme<L>, L: Layout>() {
    let domain = limited::<S, L>(1);
    let word = AtomicU32::new(0);
    let is_full = || domain.wait(&word, 0) == Err(Error::NoMemory);
    for round in 0..3 {
        let mut waiters = idle(1);
        let queued = queue(&domain, &mut waiters[0], &word);
        assert!(is_full());
        match round {
            0 => assert!(queued.cancel()),
            1 => drop(queued),
            _ => {
                assert_eq!(domain.wake(&word, 1), 1);
                assert!(is_full(), "woken, but still a waiter's memory");
                assert!(queued.try_finish().is_ok());
            }
        }
        assert_eq!(domain.waiting(), 0);
    }
    assert_eq!(domain.counters().refused_waiters, 4);
}

/// A word of a shared object: whoever wakes, the waiter is counted where it came from.
fn waiter_counts_in_its_own_domain_whoever_wakes_it<S: Scheme<L>, L: Layout>() {
    let system = system::<L>();
    let [a, b] = [(); 2].map(|()| Domain::<S, L>::with_options(&system, Options::new().max_waiters(1)));
    let word = AtomicU32::new(0);
    let shared = || Shared::object(&word, OBJECT, 64);
    let (mut of_a, mut of_b) = (idle(1), idle(1));
    let (in_a, in_b) = (queue(&a, &mut of_a[0], shared()), queue(&b, &mut of_b[0], shared()));
    assert_eq!((a.waiting(), b.waiting()), (1, 1));
    assert_eq!(b.wake(shared(), 1), 1);
    assert!(in_a.try_finish().is_ok(), "it came first");
    assert_eq!((a.waiting(), b.waiting()), (0, 1));
    assert_eq!(a.wake(shared(), 1), 1);
    drop(in_b);
    assert_eq!((a.waiting(), b.waiting()), (0, 0));
}

fn wait_for_several_words_counts_each_of_them<S: Scheme<L>, L: Layout>() {
    let domain = limited::<S, L>(3);
    let words = [(); 4].map(|()| AtomicU32::new(0));
    let pairs = |count| words[..count].iter().map(|word| (word, 0)).collect::<Vec<_>>();
    let mut context = Context::from_waker(Waker::noop());
    let mut four = pin!(domain.wait_any_async(pairs(4), WaitOptions::new()));
    assert_eq!(four.as_mut().poll(&mut context), Poll::Ready(Err(Error::NoMemory)));
    assert_eq!((domain.waiting(), domain.counters().refused_waiters), (0, 1));
    let mut three = pin!(domain.wait_any_async(pairs(3), WaitOptions::new()));
    assert_eq!(three.as_mut().poll(&mut context), Poll::Pending);
    assert_eq!(domain.waiting(), 3);
    assert_eq!(domain.wake(&words[1], 1), 1);
    assert_eq!(three.as_mut().poll(&mut context), Poll::Ready(Ok(1)));
    assert_eq!(domain.waiting(), 0);
}

fn waiter_for_a_lock_counts_as_any_other<S: Scheme<L>, L: Layout>() {
    let domain = limited::<S, L>(1);
    let (word, condition) = (AtomicU32::new(0), AtomicU32::new(0));
    let [owner, second, third] = [1, 2, 3].map(|tid| domain.task(tid).expect("the number is free"));
    let mut context = Context::from_waker(Waker::noop());
    assert_eq!(domain.try_lock_pi(&word, &owner), Ok(()));
    {
        let mut waits = pin!(domain.lock_pi_async(&word, &second));
        assert_eq!(waits.as_mut().poll(&mut context), Poll::Pending);
        assert_eq!(domain.waiting(), 1);
        let mut refused = pin!(domain.lock_pi_async(&word, &third));
        assert_eq!(refused.as_mut().poll(&mut context), Poll::Ready(Err(Error::NoMemory)));
        let mut refused = pin!(domain.wait_requeue_pi_async(&condition, 0, &word, &third));
        assert_eq!(refused.as_mut().poll(&mut context), Poll::Ready(Err(Error::NoMemory)));
        assert_eq!((domain.waiting(), domain.counters().refused_waiters), (1, 2));
        assert_eq!(domain.unlock_pi(&word, &owner), Ok(()));
        assert_eq!(waits.as_mut().poll(&mut context), Poll::Ready(Ok(())));
    }
    assert_eq!(domain.waiting(), 0);
    {
        // Nobody waits for the lock: whoever is refused leaves no trace in the graph.
        let mut fills = idle(1);
        let queued = queue(&domain, &mut fills[0], &condition);
        let mut refused = pin!(domain.lock_pi_async(&word, &third));
        assert_eq!(refused.as_mut().poll(&mut context), Poll::Ready(Err(Error::NoMemory)));
        drop(queued);
    }
    assert_eq!(domain.unlock_pi(&word, &second), Ok(()));
    assert_eq!(word.load(Ordering::SeqCst), 0);
    let mut given_up = pin!(domain.wait_requeue_pi_async(&condition, 0, &word, &third));
    assert_eq!(given_up.as_mut().poll(&mut context), Poll::Pending);
    assert_eq!(domain.waiting(), 1);
    given_up.set(domain.wait_requeue_pi_async(&condition, 0, &word, &third));
    assert_eq!(domain.waiting(), 0);
}

fn waiters_that_move_still_count_once<S: Scheme<L>, L: Layout>() {
    let domain = limited::<S, L>(20);
    let words = [(); 2].map(|()| AtomicU32::new(0));
    let mut waiters = idle(20);
    let queued: Vec<_> = waiters.iter_mut().map(|waiter| queue(&domain, waiter, &words[0])).collect();
    for slots in [64, 0, 4] {
        assert_eq!(domain.set_slots(slots), Ok(()));
    }
    assert_eq!(domain.requeue(&words[0], &words[1], 0, 12).map(|r| r.requeued), Ok(12));
    assert_eq!(domain.waiting(), 20);
    drop(queued);
    assert_eq!(domain.waiting(), 0);
}

fn guest_cannot_ask_for_more_slots_than_the_limit<S: Scheme<L>, L: Layout>() {
    let system = System::<L>::with_config(Config::new().cpus(1).max_slots(64)).expect("the memory is there");
    let domain = Domain::<S, L>::with_options(&system, Options::new());
    assert_eq!(domain.prctl_futex_hash(1, 128, 0), -12);
    assert_eq!((domain.slots(), domain.counters().refused_slots), (0, 1));
    assert_eq!(domain.prctl_futex_hash(1, 64, 0), 0);
    assert_eq!((domain.slots(), domain.counters().refused_slots), (64, 1));
    assert_eq!(domain.prctl_futex_hash(1, 3, 0), -22);
    assert_eq!(domain.set_slots(128), Ok(()), "the embedder may");
    assert_eq!((domain.slots(), domain.counters().refused_slots), (128, 1));
}

on_every_domain![
    waiter_beyond_the_limit_is_refused_whatever_it_is,
    room_comes_back_when_a_waiter_is_idle_again,
    waiter_counts_in_its_own_domain_whoever_wakes_it,
    wait_for_several_words_counts_each_of_them,
    waiter_for_a_lock_counts_as_any_other,
];
mod resizable {
    use super::*;
    on_every_resizable_domain![waiters_that_move_still_count_once, guest_cannot_ask_for_more_slots_than_the_limit];
}

#[test]
fn threads_that_come_and_go_at_the_limit_never_exceed_it() {
    let domain = limited::<Live, Lean>(2);
    let word = AtomicU32::new(0);
    let refused: u64 = std::thread::scope(|scope| {
        let workers = [(); 4].map(|()| {
            scope.spawn(|| {
                let mut refused = 0;
                for _ in 0..5000 {
                    let mut waiter = pin!(Waiter::new());
                    let waker = Waker::noop().clone();
                    match domain.prepare_with(waiter.as_mut(), &word, 0, &WaitOptions::new(), waker) {
                        Ok(queued) => {
                            assert!(domain.waiting() <= 2);
                            assert!(queued.cancel());
                        }
                        Err(error) => {
                            assert_eq!(error, Error::NoMemory);
                            refused += 1;
                        }
                    }
                }
                refused
            })
        });
        workers.map(|worker| worker.join().expect("no worker panics")).iter().sum()
    });
    assert_eq!((domain.waiting(), domain.counters().refused_waiters), (0, refused));
}
