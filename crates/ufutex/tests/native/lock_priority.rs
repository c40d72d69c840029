//! The order in which a PI lock is handed over, and the priority that its owner inherits.

use std::sync::atomic::{AtomicI32, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex};
use std::task::Poll;
use std::time::Duration;

use ufutex::{
    Cause, Domain, DomainOptions, Error, System, SystemConfig, Task, WaitOptions,
    pi::{Priority, Scheduler},
};

use crate::common::asleep::{Call, futex_call, thread_id, until};
use crate::common::domains::{domain, on_domains};
use crate::common::futures::{Boxed, at_once, pending, pending_with, poll};
use crate::common::places::{Word, lasting_domain, lasting_task, words};
use crate::common::platforms::watched;
use crate::common::sleeping::Sleeping;
use crate::common::waker::Notified;
use crate::scheduler::{Log, tasks};

type Locks<'d, 't> = Vec<Boxed<ufutex::pi::LockPi<'d, 't, Word>>>;

fn prioritise(task: &Task, priority: u8) {
    task.set_priority(Priority::realtime(priority));
}

/// Unlocks the lock until it is free. Returns the TIDs of its owners in order.
fn order(domain: &Domain, word: Word, tasks: &[Task], mut locks: Locks<'_, '_>) -> Vec<u32> {
    let mut order = vec![word.load(Relaxed) & ufutex::pi::TID_MASK];
    while let Some(owner) = tasks.iter().find(|task| task.tid() == *order.last().expect("there is one")) {
        let before = locks.len();
        assert_eq!(domain.unlock_pi(word, owner), Ok(()));
        locks.retain_mut(|lock| match poll(lock) {
            Poll::Ready(result) => {
                assert_eq!(result, Ok(()));
                false
            }
            Poll::Pending => true,
        });
        let next = word.load(Relaxed) & ufutex::pi::TID_MASK;
        assert_eq!(before - locks.len(), usize::from(next != 0), "exactly the next owner is notified");
        order.push(next);
    }
    order
}

fn change_of_priority_during_a_wait_moves_the_waiter() {
    let domain = domain();
    let tasks = tasks(&domain, [0, 1, 2, 3, 4]);
    let [word] = words();
    assert_eq!(domain.lock_pi(word, &tasks[0]), Ok(()));
    let locks = tasks[1..].iter().map(|task| pending(domain.lock_pi_async(word, task, &WaitOptions::new()))).collect();
    prioritise(&tasks[1], 50); // 2 moves to the head
    prioritise(&tasks[4], 2); // 5 moves behind 3, which has had that priority for longer
    prioritise(&tasks[3], 4); // 4 stays ahead of both
    prioritise(&tasks[3], 4);
    assert_eq!(order(&domain, word, &tasks, locks), [1, 2, 4, 3, 5, 0]);
}

fn threads_are_handed_the_lock_by_priority() {
    let domain: &'static Domain = lasting_domain();
    let tasks = [1, 2, 3, 4].map(|tid| lasting_task(domain, tid));
    let [word]: [Word; 1] = words();
    assert_eq!(domain.lock_pi(word, tasks[0]), Ok(()));
    prioritise(tasks[2], 7);
    let [a, b, c] = [1, 2, 3].map(|i| Sleeping::new(move || domain.lock_pi(word, tasks[i])));
    prioritise(tasks[3], 8);
    for (owner, next) in [(0, c), (3, b), (2, a)] {
        assert_eq!(domain.unlock_pi(word, tasks[owner]), Ok(()));
        assert_eq!(next.outcome(), Ok(()));
    }
}

fn owner_inherits_the_highest_priority_of_all_waiters_of_its_locks() {
    let (log, domain) = Log::domain();
    let tasks = tasks(&domain, [3, 10, 20, 5]);
    let [owner, ten, twenty, five] = tasks.each_ref();
    let all = || log.priorities(&tasks.each_ref());
    let [first, second] = words();
    assert_eq!(domain.lock_pi(first, owner), Ok(()));
    assert_eq!(domain.lock_pi(second, owner), Ok(()));
    let by_ten = pending(domain.lock_pi_async(first, ten, &WaitOptions::new()));
    assert_eq!(all(), [10, 10, 20, 5]);
    let by_twenty = pending(domain.lock_pi_async(second, twenty, &WaitOptions::new()));
    assert_eq!(all(), [20, 10, 20, 5]);
    let mut by_five = pending(domain.lock_pi_async(second, five, &WaitOptions::new()));
    assert_eq!(all(), [20, 10, 20, 5]);
    drop(by_twenty);
    assert_eq!(all(), [10, 10, 20, 5]);
    prioritise(five, 30);
    assert_eq!(all(), [30, 10, 20, 30]);
    prioritise(owner, 40);
    assert_eq!(all(), [40, 10, 20, 30]);
    prioritise(owner, 0);
    assert_eq!(all(), [30, 10, 20, 30]);
    // Unlocking a lock ends the priority inherited through it.
    assert_eq!(domain.unlock_pi(second, owner), Ok(()));
    assert_eq!(all(), [10, 10, 20, 30]);
    assert_eq!(poll(&mut by_five), Poll::Ready(Ok(())));
    drop(by_ten);
    assert_eq!(all(), [0, 10, 20, 30]);
}

/// A chain of four tasks. Each waits for a lock that the task before it owns.
fn boost_goes_along_a_chain_and_back() {
    let (log, domain) = Log::domain();
    let tasks = tasks(&domain, [1, 2, 0, 0, 50]);
    let all = || log.priorities(&tasks.each_ref());
    let locks: [Word; 4] = words();
    for i in 0..4 {
        assert_eq!(domain.lock_pi(locks[i], &tasks[i]), Ok(()));
    }
    let mut waits: Vec<_> =
        (1..4).map(|i| pending(domain.lock_pi_async(locks[i - 1], &tasks[i], &WaitOptions::new()))).collect();
    assert_eq!(all(), [2, 2, 0, 0, 50]);
    let dropped = pending(domain.lock_pi_async(locks[3], &tasks[4], &WaitOptions::new()));
    assert_eq!(all(), [50, 50, 50, 50, 50]);
    drop(dropped);
    assert_eq!(all(), [2, 2, 0, 0, 50]);
    for (cause, error) in [(Cause::TimedOut, Error::TimedOut), (Cause::Interrupted, Error::Interrupted)] {
        let mut ended = pending(domain.lock_pi_async(locks[3], &tasks[4], &WaitOptions::new()));
        prioritise(&tasks[4], 60);
        assert_eq!(all(), [60, 60, 60, 60, 60]);
        assert_eq!(ended.as_mut().end(cause), Err(error));
        assert_eq!(all(), [2, 2, 0, 0, 60]);
    }
    let mut handed = pending(domain.lock_pi_async(locks[3], &tasks[4], &WaitOptions::new()));
    assert_eq!(all(), [60, 60, 60, 60, 60]);
    assert_eq!(domain.unlock_pi(locks[3], &tasks[3]), Ok(()));
    assert_eq!(all(), [2, 2, 0, 0, 60]);
    assert_eq!(poll(&mut handed), Poll::Ready(Ok(())));
    // A wait in the middle of the chain ends.
    let again = pending(domain.lock_pi_async(locks[2], &tasks[4], &WaitOptions::new()));
    assert_eq!(all(), [60, 60, 60, 0, 60]);
    drop(waits.remove(0));
    assert_eq!(all(), [1, 60, 60, 0, 60]);
    drop(again);
    assert_eq!(all(), [1, 2, 0, 0, 60]);
}

fn only_the_new_owner_is_woken() {
    let domain = domain();
    let tasks = tasks(&domain, [0, 1, 2]);
    let [word] = words();
    assert_eq!(domain.lock_pi(word, &tasks[0]), Ok(()));
    let [(low, low_waker), (high, high_waker), (newer, newer_waker)] = [(); 3].map(|()| Notified::new());
    let mut lower = pending_with(domain.lock_pi_async(word, &tasks[1], &WaitOptions::new()), &low_waker);
    let mut higher = pending_with(domain.lock_pi_async(word, &tasks[2], &WaitOptions::new()), &high_waker);
    assert_eq!(crate::common::futures::poll_with(&mut higher, &newer_waker), Poll::Pending);
    assert_eq!(Arc::strong_count(&high), 2, "let go");
    assert_eq!(domain.unlock_pi(word, &tasks[0]), Ok(()));
    assert_eq!((low.times(), high.times(), newer.times()), (0, 0, 1));
    assert_eq!((poll(&mut lower), poll(&mut higher)), (Poll::Pending, Poll::Ready(Ok(()))));
}

fn depth(depth: usize) -> SystemConfig {
    SystemConfig::new().max_pi_depth(depth)
}

/// As in the kernel, the limit is on the number of owners between the first waiter and the last lock.
fn chain_longer_than_the_limit_is_refused_and_counted() {
    let (log, system) = Log::system(depth(3));
    let domain = Domain::with_options(&system, DomainOptions::new());
    let tasks = tasks(&domain, [0, 0, 0, 0, 0, 9]);
    let locks: [Word; 5] = words();
    for i in 0..5 {
        assert_eq!(domain.lock_pi(locks[i], &tasks[i]), Ok(()));
    }
    let mut waits: Vec<_> =
        (1..5).map(|i| pending(domain.lock_pi_async(locks[i - 1], &tasks[i], &WaitOptions::new()))).collect();
    assert_eq!(system.pi_chains_refused(), 0);
    assert_eq!(at_once(domain.lock_pi_async(locks[4], &tasks[5], &WaitOptions::new())), Err(Error::Deadlock));
    assert_eq!(domain.lock_pi(locks[4], &tasks[5]), Err(Error::Deadlock));
    assert_eq!(system.pi_chains_refused(), 2);
    assert_eq!(log.priorities(&tasks.each_ref()), [0, 0, 0, 0, 0, 9]);
    // After the chain has become shorter, the wait is allowed.
    drop(waits.remove(0));
    let _last = pending(domain.lock_pi_async(locks[4], &tasks[5], &WaitOptions::new()));
    assert_eq!(log.priorities(&tasks.each_ref()), [0, 9, 9, 9, 9, 9]);
    assert_eq!(system.pi_chains_refused(), 2);
}

/// As above, but each new wait is by the last owner, so the chain grows at its other end.
fn chain_that_grows_at_its_end_is_limited_too() {
    let (_, system) = Log::system(depth(3));
    let domain = Domain::with_options(&system, DomainOptions::new());
    let tasks = tasks(&domain, [0; 6]);
    let locks: [Word; 6] = words();
    for i in 0..6 {
        assert_eq!(domain.lock_pi(locks[i], &tasks[i]), Ok(()));
    }
    let _waits: Vec<_> =
        (0..4).map(|i| pending(domain.lock_pi_async(locks[i + 1], &tasks[i], &WaitOptions::new()))).collect();
    assert_eq!(at_once(domain.lock_pi_async(locks[5], &tasks[4], &WaitOptions::new())), Err(Error::Deadlock));
    assert_eq!(system.pi_chains_refused(), 1);
}

/// Several threads change priorities in one chain concurrently. The scheduler's last call for a task has the right
/// priority.
fn scheduler_gets_the_last_change_last() {
    let (log, domain) = Log::domain();
    let tasks = tasks(&domain, [0; 5]);
    let locks: [Word; 4] = words();
    for i in 0..4 {
        assert_eq!(domain.lock_pi(locks[i], &tasks[i]), Ok(()));
    }
    let _waits: Vec<_> =
        (1..4).map(|i| pending(domain.lock_pi_async(locks[i - 1], &tasks[i], &WaitOptions::new()))).collect();
    let (domain, tasks) = (&domain, &tasks);
    for round in 0..20 {
        std::thread::scope(|scope| {
            for (i, task) in tasks.iter().enumerate().skip(1) {
                scope.spawn(move || (0..50).for_each(|n| prioritise(task, ((n * 7 + i * 13 + round) % 99) as u8)));
            }
            scope.spawn(move || {
                for _ in 0..50 {
                    drop(pending(domain.lock_pi_async(locks[3], &tasks[4], &WaitOptions::new())));
                }
            });
        });
        log.priorities(&tasks.each_ref());
    }
}

/// A scheduler that takes the CPU from task 1 when its priority falls, as one does that has more urgent threads: the
/// call ends when the next owner has run, or when that has taken too long.
#[derive(Default)]
struct TakesTheCpu {
    heir_has_run: Mutex<bool>,
    runs: Condvar,
    is_lowered: Mutex<Option<bool>>,
}

impl Scheduler for TakesTheCpu {
    fn set_priority(&self, tid: u32, priority: Priority) {
        if (tid, priority) != (1, Priority::NORMAL) {
            return;
        }
        let heir_has_run = self.heir_has_run.lock().expect("not poisoned");
        let waited = self.runs.wait_timeout_while(heir_has_run, Duration::from_secs(10), |has_run| !*has_run);
        *self.is_lowered.lock().expect("not poisoned") = Some(*waited.expect("not poisoned").0);
    }
}

/// If the heir were woken later, threads of priorities in between would keep the CPU from the former owner, and so the
/// lock from the heir.
fn heir_is_woken_before_the_former_owner_is_lowered() {
    heir_is_woken_first(|domain, word, owner| assert_eq!(domain.unlock_pi(word, &owner), Ok(())));
}

fn heir_is_woken_before_an_owner_that_has_ended_is_lowered() {
    heir_is_woken_first(|_, _, owner| drop(owner));
}

fn heir_is_woken_first(unlock: fn(&Domain, Word, Task)) {
    let scheduler = Arc::new(TakesTheCpu::default());
    let system = System::with_scheduler(watched(SystemConfig::new()), scheduler.clone()).expect("the memory is there");
    let domain = &Domain::with_options(&system, DomainOptions::new());
    let [owner, heir] = tasks(domain, [0, 80]);
    let ([word], of_heir) = (words(), AtomicI32::new(0));
    assert_eq!(domain.lock_pi(word, &owner), Ok(()));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            of_heir.store(thread_id(), Relaxed);
            assert_eq!(domain.lock_pi(word, &heir), Ok(()));
            *scheduler.heir_has_run.lock().expect("not poisoned") = true;
            scheduler.runs.notify_all();
        });
        // Its own report of the loan is over when it sleeps.
        until("the heir sleeps", || {
            futex_call(of_heir.load(Relaxed)).is_some_and(Call::is_of_the_engine)
                && owner.priority() != Priority::NORMAL
        });
        unlock(domain, word, owner);
    });
    assert_eq!(*scheduler.is_lowered.lock().expect("not poisoned"), Some(true), "the heir has run by then");
}

on_domains![
    heir_is_woken_before_the_former_owner_is_lowered,
    heir_is_woken_before_an_owner_that_has_ended_is_lowered,
    change_of_priority_during_a_wait_moves_the_waiter,
    threads_are_handed_the_lock_by_priority,
    owner_inherits_the_highest_priority_of_all_waiters_of_its_locks,
    boost_goes_along_a_chain_and_back,
    only_the_new_owner_is_woken,
    chain_longer_than_the_limit_is_refused_and_counted,
    chain_that_grows_at_its_end_is_limited_too,
    scheduler_gets_the_last_change_last,
];
