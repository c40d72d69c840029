//! An operation that waits for the lock of its domain's PI region holds no bucket lock meanwhile: another domain whose
//! words share the bucket is not blocked.
//!
//! Promise: busy regions

use std::sync::atomic::{AtomicI32, AtomicU32, Ordering::SeqCst};
use std::task::Poll;

use ufutex::scheme::Scheme;
use ufutex::{Cause, Config, Domain, Error, ObjectId, Options, Shared, System, Task, pi::WAITERS};

use crate::common::asleep::{futex_call, thread_id, until};
use crate::common::domains::on_every_scheme;
use crate::common::platforms::watched;
use crate::common::waiters::{idle, queue};
use crate::futures::{pending, poll};
use crate::lock_regions::while_one_is_stuck;
use crate::places::{Word, words};

/// A system whose global table has two buckets, the minimum.
pub fn system_with_two_buckets() -> System {
    System::with_config(watched(Config::new().cpus(1).global_slots(2).hash_seed(1))).expect("the memory is there")
}

pub fn object<T>(word: T, offset: u64) -> Shared<T>
where
    T: ufutex::Target,
{
    Shared::object(word, ObjectId::new(5).expect("small enough"), offset)
}

/// Uses both buckets of the global table by operations of an otherwise unrelated domain.
pub fn use_the_buckets<S: Scheme>(stranger: &Domain<S>, tids: [u32; 2]) {
    let [owner, waiter] = tids.map(|tid| stranger.task(tid).expect("the TID is free"));
    // Sixteen words are enough for both buckets to be used. The hash seed is fixed, so their buckets are always the
    // same.
    for offset in (1..17).map(|line| 640 + 64 * line) {
        let word = AtomicU32::new(0);
        let shared = object(&word, offset);
        let mut waiters = idle(1);
        let queued = queue(stranger, &mut waiters[0], shared);
        assert_eq!(stranger.wake(shared, 1), 1);
        assert!(queued.is_woken());
        assert_eq!(stranger.lock_pi(shared, &owner, None), Ok(()));
        let mut wait = pending(stranger.lock_pi_async(shared, &waiter));
        assert_eq!(stranger.try_lock_pi(shared, &waiter), Err(Error::Again));
        assert_eq!(stranger.unlock_pi(shared, &owner), Ok(()));
        assert_eq!(poll(&mut wait), Poll::Ready(Ok(())));
        assert_eq!(stranger.unlock_pi(shared, &waiter), Ok(()));
    }
}

/// Runs `operation` of the domain `here` while another operation holds the lock of `here`'s region. Once `operation`
/// waits for that lock, the domain `stranger` uses the buckets and `look` runs. Then the region is unlocked.
fn while_its_region_is_busy<S: Scheme, R: Send>(
    [here, stranger]: [&Domain<S>; 2],
    operation: impl FnOnce() -> R + Send,
    look: impl FnOnce(),
) -> R {
    let thread = AtomicI32::new(0);
    std::thread::scope(|scope| {
        let running = while_one_is_stuck(here, || {
            let running = scope.spawn(|| {
                thread.store(thread_id(), SeqCst);
                operation()
            });
            let sleeps = || thread.load(SeqCst) != 0 && futex_call(thread.load(SeqCst)).is_some();
            until("the operation waits for its region", sleeps);
            use_the_buckets(stranger, [901, 902]);
            look();
            assert!(!running.is_finished());
            running
        });
        running.join().expect("it does not panic")
    })
}

struct World<S: Scheme> {
    here: Domain<S>,
    stranger: Domain<S>,
    tasks: [Task; 3],
    words: [Word; 2],
}

impl<S: Scheme> World<S> {
    fn new() -> Self {
        let system = system_with_two_buckets();
        let [here, stranger] = [(); 2].map(|()| Domain::with_options_in(&system, Options::new()));
        let tasks = [1, 2, 3].map(|tid| here.task(tid).expect("the TID is free"));
        Self { here, stranger, tasks, words: words() }
    }

    fn lock(&self) -> Shared<Word> {
        object(self.words[0], 0)
    }

    fn condition(&self) -> Shared<Word> {
        object(self.words[1], 64)
    }

    fn while_busy<R: Send>(&self, operation: impl FnOnce() -> R + Send) -> R {
        while_its_region_is_busy([&self.here, &self.stranger], operation, || ())
    }
}

fn lock_waits_with_nothing_locked<S: Scheme>() {
    let world = World::<S>::new();
    let (here, [a, b, _]) = (&world.here, &world.tasks);
    assert_eq!(here.lock_pi(world.lock(), a, None), Ok(()));
    let mut wait = world.while_busy(|| pending(here.lock_pi_async(world.lock(), b)));
    assert_eq!(world.while_busy(|| here.try_lock_pi(world.lock(), b)), Err(Error::Again));
    assert_eq!(here.unlock_pi(world.lock(), a), Ok(()));
    assert_eq!(poll(&mut wait), Poll::Ready(Ok(())));
}

fn unlock_waits_with_nothing_locked<S: Scheme>() {
    let world = World::<S>::new();
    let (here, [a, b, _]) = (&world.here, &world.tasks);
    assert_eq!(here.lock_pi(world.lock(), a, None), Ok(()));
    let mut wait = pending(here.lock_pi_async(world.lock(), b));
    assert_eq!(world.while_busy(|| here.unlock_pi(world.lock(), a)), Ok(()));
    assert_eq!(poll(&mut wait), Poll::Ready(Ok(())));
}

fn waiter_is_polled_and_ends_with_nothing_locked<S: Scheme>() {
    let world = World::<S>::new();
    let (here, [a, b, c]) = (&world.here, &world.tasks);
    assert_eq!(here.lock_pi(world.lock(), a, None), Ok(()));
    let mut wait = pending(here.lock_pi_async(world.lock(), b));
    assert_eq!(world.while_busy(|| poll(&mut wait)), Poll::Pending);
    assert_eq!(world.while_busy(|| wait.as_mut().end(Cause::TimedOut)), Err(Error::TimedOut));
    let wait = pending(here.wait_requeue_pi_async(world.condition(), 0, world.lock(), c));
    world.while_busy(|| drop(wait));
    assert_eq!(here.unlock_pi(world.lock(), a), Ok(()));
    assert_eq!(world.words[0].load(SeqCst), 0);
}

/// The new owner of a dead owner's lock corrects the word, or passes the lock on if its wait is dropped.
fn new_owner_waits_with_nothing_locked<S: Scheme>() {
    let world = World::<S>::new();
    let (here, [a, b, c]) = (&world.here, &world.tasks);
    let dead = here.task(9).expect("the TID is free");
    assert_eq!(here.lock_pi(world.lock(), &dead, None), Ok(()));
    let [first, mut second, mut third] = [a, b, c].map(|task| pending(here.lock_pi_async(world.lock(), task)));
    drop(dead);
    world.while_busy(|| drop(first));
    assert_eq!(world.while_busy(|| poll(&mut second)), Poll::Ready(Ok(())));
    assert_eq!(here.unlock_pi(world.lock(), b), Ok(()));
    assert_eq!(poll(&mut third), Poll::Ready(Ok(())));
}

fn requeue_waits_with_nothing_locked<S: Scheme>() {
    let world = World::<S>::new();
    let (here, [a, b, _]) = (&world.here, &world.tasks);
    let mut waits = [a, b].map(|task| pending(here.wait_requeue_pi_async(world.condition(), 0, world.lock(), task)));
    assert_eq!(world.while_busy(|| here.cmp_requeue_pi(world.condition(), 0, world.lock(), 9)), Ok(2));
    assert_eq!(waits.each_mut().map(poll), [Poll::Ready(Ok(())), Poll::Pending]);
    assert_eq!(world.words[0].load(SeqCst), WAITERS | 1);
    assert_eq!(here.unlock_pi(world.lock(), a), Ok(()));
    assert_eq!(poll(&mut waits[1]), Poll::Ready(Ok(())));
}

/// The third of five waiters belongs to another domain, whose region is busy. The requeue handles the first two at
/// once.
fn requeue_waits_for_another_domains_region_when_it_comes_to_it<S: Scheme>() {
    let system = system_with_two_buckets();
    let [caller, busy, stranger] = [(); 3].map(|()| Domain::<S>::with_options_in(&system, Options::new()));
    let tasks = [1, 2, 3, 4, 5].map(|tid| if tid == 3 { &busy } else { &caller }.task(tid).expect("the TID is free"));
    let [word, condition] = words();
    let (lock, condition) = (object(word, 0), object(condition, 64));
    let mut waits: Vec<_> = (tasks.iter())
        .map(|task| if task.tid() == 3 { &busy } else { &caller }.wait_requeue_pi_async(condition, 0, lock, task))
        .map(pending)
        .collect();
    let moved = while_its_region_is_busy(
        [&busy, &stranger],
        || caller.cmp_requeue_pi(condition, 0, lock, 9),
        || assert_eq!(word.load(SeqCst), WAITERS | 1, "the first has the lock"),
    );
    assert_eq!(moved, Ok(5));
    for (i, task) in tasks.iter().enumerate() {
        assert!(waits[i + 1..].iter_mut().all(|wait| poll(wait).is_pending()));
        assert_eq!(poll(&mut waits[i]), Poll::Ready(Ok(())));
        assert_eq!(if task.tid() == 3 { &busy } else { &caller }.unlock_pi(lock, task), Ok(()));
    }
}

on_every_scheme![
    lock_waits_with_nothing_locked,
    unlock_waits_with_nothing_locked,
    waiter_is_polled_and_ends_with_nothing_locked,
    new_owner_waits_with_nothing_locked,
    requeue_waits_with_nothing_locked,
    requeue_waits_for_another_domains_region_when_it_comes_to_it,
];
