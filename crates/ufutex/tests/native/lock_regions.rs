//! Domains that share no contended lock do not wait for each other.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed, Ordering::SeqCst};
use std::task::Poll;

use ufutex::layout::Layout;
use ufutex::scheme::Scheme;
use ufutex::{
    Access, Cause, Config, Domain, Error, Fault, Guest, ObjectId, Options, Priority, Shared, System, UserMemory, Width,
};

use crate::common::domains::on_every_scheme;
use crate::futures::{pending, poll};
use crate::places::{Word, words};
use crate::scheduler::Log;

/// A word of memory whose next access, with locks held, takes until somebody says so.
#[derive(Default)]
struct Slow {
    word: AtomicU32,
    is_slow: AtomicBool,
    is_inside: AtomicBool,
}

impl Slow {
    fn access(&self) {
        if self.is_slow.load(SeqCst) {
            self.is_inside.store(true, SeqCst);
            while self.is_slow.load(SeqCst) {
                std::thread::yield_now();
            }
        }
    }

    fn wait_until_inside(&self) {
        while !self.is_inside.load(SeqCst) {
            std::thread::yield_now();
        }
    }
}

impl UserMemory for Slow {
    fn load(&self, _: u64, _: Width) -> Result<u64, Fault> {
        self.access();
        Ok(self.word.load(SeqCst).into())
    }
    fn compare_exchange(&self, _: u64, _: Width, current: u64, new: u64) -> Result<Result<u64, u64>, Fault> {
        let result = self.word.compare_exchange(current as u32, new as u32, SeqCst, SeqCst);
        Ok(result.map(u64::from).map_err(u64::from))
    }
    fn fault_in(&self, _: u64, _: Access) -> Result<(), Fault> {
        Err(Fault)
    }
}

fn domains<S: Scheme<L>, L: Layout>() -> (System<L>, [Domain<S, L>; 2]) {
    let (_, system) = Log::system::<L>(Config::new());
    let domains = [(); 2].map(|()| Domain::with_options(&system, Options::new()));
    (system, domains)
}

/// Runs `meanwhile` while an operation of `domain` on a contended lock of its own does not get on with it.
pub fn while_one_is_stuck<S: Scheme<L>, L: Layout, R>(domain: &Domain<S, L>, meanwhile: impl FnOnce() -> R) -> R {
    let slow = Slow::default();
    let word = Guest::new(&slow, 0x1000, Width::U32).expect("it is aligned");
    let [owner, waiter] = [101, 102].map(|tid| domain.task(tid).expect("the TID is free"));
    assert_eq!(domain.lock_pi(word, &owner, None), Ok(()));
    let result = std::thread::scope(|scope| {
        slow.is_slow.store(true, SeqCst);
        let stuck = scope.spawn(|| {
            let mut wait = pending(domain.lock_pi_async(word, &waiter));
            assert_eq!(wait.as_mut().end(Cause::TimedOut), Err(Error::TimedOut));
        });
        slow.wait_until_inside();
        let result = meanwhile();
        assert!(!stuck.is_finished());
        slow.is_slow.store(false, SeqCst);
        result
    });
    assert_eq!(domain.unlock_pi(word, &owner), Ok(()));
    result
}

/// Everything that a domain can do with locks and tasks.
pub fn live_a_full_life<S: Scheme<L>, L: Layout>(domain: &Domain<S, L>) {
    let [word, from] = words();
    let [a, b, c] = [1, 2, 3].map(|tid| domain.task(tid).expect("the TID is free"));
    b.set_priority(Priority::realtime(7));
    assert_eq!(domain.lock_pi(word, &a, None), Ok(()));
    let mut wait_of_c = pending(domain.lock_pi_async(word, &c));
    let mut wait_of_b = pending(domain.lock_pi_async(word, &b));
    assert_eq!(a.priority(), Priority::realtime(7));
    assert_eq!(domain.unlock_pi(word, &a), Ok(()));
    assert_eq!((poll(&mut wait_of_c), poll(&mut wait_of_b)), (Poll::Pending, Poll::Ready(Ok(()))));
    let mut wait = pending(domain.wait_requeue_pi_async(from, 0, word, &a));
    assert_eq!(domain.cmp_requeue_pi(from, 0, word, 0), Ok(1));
    drop(wait_of_b);
    drop(b);
    assert_eq!(poll(&mut wait_of_c), Poll::Ready(Ok(())));
    assert_eq!(domain.unlock_pi(word, &c), Ok(()));
    assert_eq!(poll(&mut wait), Poll::Ready(Ok(())));
    assert_eq!(domain.try_lock_pi(word, &c), Err(Error::Again));
    assert_eq!(domain.unlock_pi(word, &a), Ok(()));
}

fn strangers_do_not_meet<S: Scheme<L>, L: Layout>() {
    let (system, [here, there]) = domains::<S, L>();
    while_one_is_stuck(&here, || {
        live_a_full_life(&there);
        // And one that comes now.
        live_a_full_life(&Domain::<S, L>::with_options(&system, Options::new()));
    });
}

fn object(word: Word) -> Shared<Word> {
    Shared::object(word, ObjectId::new(5).expect("small enough"), 64)
}

/// They have waited for each other once, in all ways in which a wait ends.
fn domains_that_met_part_again<S: Scheme<L>, L: Layout>() {
    let (_, [here, there]) = domains::<S, L>();
    let [word] = words();
    let lock = object(word);
    let [a, c] = [1, 3].map(|tid| here.task(tid).expect("the TID is free"));
    let b = there.task(2).expect("the TID is free");
    b.set_priority(Priority::realtime(9));
    for round in 0..3 {
        assert_eq!(here.lock_pi(lock, &a, None), Ok(()));
        let mut waits = [pending(here.lock_pi_async(lock, &c)), pending(there.lock_pi_async(lock, &b))];
        match round {
            0 => assert_eq!(waits[0].as_mut().end(Cause::TimedOut), Err(Error::TimedOut)),
            _ => assert_eq!(here.unlock_pi(lock, &a), Ok(())),
        }
        if round == 0 {
            assert_eq!(waits[1].as_mut().end(Cause::TimedOut), Err(Error::TimedOut));
            assert_eq!(here.unlock_pi(lock, &a), Ok(()));
        } else {
            assert_eq!(waits.each_mut().map(poll), [Poll::Pending, Poll::Ready(Ok(()))]);
            assert_eq!(there.unlock_pi(lock, &b), Ok(()));
            assert_eq!(poll(&mut waits[0]), Poll::Ready(Ok(())));
            assert_eq!(here.unlock_pi(lock, &c), Ok(()));
        }
        assert_eq!((a.priority(), word.load(Relaxed)), (Priority::NORMAL, 0));
    }
    drop((a, b, c));
    while_one_is_stuck(&here, || live_a_full_life(&there));
    while_one_is_stuck(&there, || live_a_full_life(&here));
}

/// A domain whose task waits for another domain's is in its region, and a third is not.
fn only_those_who_wait_for_each_other_meet<S: Scheme<L>, L: Layout>() {
    let (system, [here, there]) = domains::<S, L>();
    let [word] = words();
    let lock = object(word);
    let (a, b) = (here.task(51).expect("the TID is free"), there.task(52).expect("the TID is free"));
    assert_eq!(here.lock_pi(lock, &a, None), Ok(()));
    let wait = pending(there.lock_pi_async(lock, &b));
    while_one_is_stuck(&here, || live_a_full_life(&Domain::<S, L>::with_options(&system, Options::new())));
    drop(wait);
    while_one_is_stuck(&here, || live_a_full_life(&there));
}

/// Domains come and go, and so do their tasks, some after their domain: what they leave serves the next ones.
fn homes_are_used_again<S: Scheme<L>, L: Layout>() {
    let (_, system) = Log::system::<L>(Config::new());
    let [word] = words();
    let lock = object(word);
    for round in 0..50u32 {
        let domains = [(); 3].map(|()| Domain::<S, L>::with_options(&system, Options::new()));
        let tid = 10 * round;
        let [a, b, c] = [0, 1, 2].map(|i| domains[i as usize].task(tid + i + 1).expect("the TID is free"));
        let [here, there, third] = domains;
        assert_eq!(here.lock_pi(lock, &a, None), Ok(()));
        let mut b_waits = pending(there.lock_pi_async(lock, &b));
        let mut c_waits = pending(third.lock_pi_async(lock, &c));
        // The lock is of a part whose domain and tasks are gone.
        drop((here, a));
        assert_eq!(poll(&mut b_waits), Poll::Ready(Ok(())));
        drop(b_waits);
        if round % 2 == 0 {
            drop((there, b));
            assert_eq!(poll(&mut c_waits), Poll::Ready(Ok(())));
        } else {
            assert_eq!(there.unlock_pi(lock, &b), Ok(()));
            assert_eq!(poll(&mut c_waits), Poll::Ready(Ok(())));
        }
        assert_eq!(third.unlock_pi(lock, &c), Ok(()));
    }
}

on_every_scheme![
    strangers_do_not_meet,
    domains_that_met_part_again,
    only_those_who_wait_for_each_other_meet,
    homes_are_used_again,
];
