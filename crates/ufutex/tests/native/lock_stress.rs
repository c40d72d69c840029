//! Many tasks use one PI lock. It must have one owner at a time, and every wait must end.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};
use std::task::Poll;
use std::time::Duration;

use ufutex::{
    Domain, DomainOptions, Error, SystemConfig, Task, Timeout, WaitOptions,
    pi::{OWNER_DIED, Priority},
};

use crate::common::asleep::until;
use crate::common::domains::on_domains;
use crate::common::futures::poll_with;
use crate::common::places::{Word, words};
use crate::common::waker::Notified;
use crate::scheduler::Log;

/// A lock and its current holder.
struct Place {
    lock: Word,
    inside: AtomicU32,
    times: AtomicUsize,
}

impl Place {
    fn new() -> Self {
        let [lock] = words();
        Self { lock, inside: AtomicU32::new(0), times: AtomicUsize::new(0) }
    }

    fn be_inside(&self, tid: u32) {
        assert_eq!(self.inside.swap(tid, SeqCst), 0, "{tid} is not alone");
        assert_eq!(self.lock.load(Relaxed) & ufutex::pi::TID_MASK, tid);
        if self.times.fetch_add(1, Relaxed).is_multiple_of(3) {
            std::thread::yield_now();
        }
        assert_eq!(self.inside.swap(0, SeqCst), tid, "another task was inside");
    }
}

fn system_and_domain() -> (Arc<Log>, Domain) {
    let (log, system) = Log::system(SystemConfig::new());
    (log, Domain::with_options(&system, DomainOptions::new()))
}

/// Locks by a future that is polled until it is ready, or in some rounds dropped at an arbitrary moment.
fn lock_as_future(domain: &Domain, lock: Word, task: &Task, round: usize) -> bool {
    let (notified, waker) = Notified::new();
    let mut wait = Box::pin(domain.lock_pi_async(lock, task, &WaitOptions::new()));
    let mut seen = 0;
    let patience = if round.is_multiple_of(3) { round % 7 } else { usize::MAX };
    for polls in 0.. {
        if let Poll::Ready(result) = poll_with(&mut wait, &waker) {
            assert_eq!(result, Ok(()));
            return true;
        }
        if polls >= patience {
            return false; // dropped while queued or after it was handed the lock
        }
        until("the lock is there", || polls + 1 >= patience || notified.times() > seen);
        seen = notified.times();
    }
    false
}

fn threads_futures_and_changes_of_priority() {
    let (log, domain) = system_and_domain();
    let place = Place::new();
    let tasks: Vec<_> = (1..=4).map(|tid| domain.task(tid).expect("it is free")).collect();
    let running = AtomicBool::new(true);
    std::thread::scope(|scope| {
        let workers: Vec<_> = tasks
            .iter()
            .enumerate()
            .map(|(i, task)| {
                let (domain, place) = (&domain, &place);
                scope.spawn(move || {
                    for round in 0..150 {
                        let is_locked = if i % 2 == 0 {
                            match domain.lock_pi(place.lock, task) {
                                Ok(()) => true,
                                Err(error) => {
                                    assert_eq!(error, Error::Interrupted);
                                    task.interrupt().clear();
                                    false
                                }
                            }
                        } else {
                            lock_as_future(domain, place.lock, task, round)
                        };
                        if is_locked {
                            place.be_inside(task.tid());
                            assert_eq!(domain.unlock_pi(place.lock, task), Ok(()));
                        }
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            for n in 0.. {
                if !running.load(SeqCst) {
                    break;
                }
                tasks[n % 4].set_priority(Priority::realtime((n % 100) as u8));
                if n % 5 == 0 {
                    tasks[2 * (n / 5 % 2)].interrupt().raise();
                }
                std::thread::yield_now();
            }
        });
        for worker in workers {
            worker.join().expect("it does not panic");
        }
        running.store(false, SeqCst);
    });
    assert_eq!(place.lock.load(Relaxed) & ufutex::pi::TID_MASK, 0);
    for task in &tasks {
        task.set_priority(Priority::NORMAL);
    }
    assert_eq!(log.priorities(&tasks.iter().collect::<Vec<_>>()), [0; 4], "no priority is inherited any more");
}

/// Each worker makes one task after another. Each task takes the lock, and every second one exits without unlocking.
/// There is always a waiter, so the lock is passed on at the exit.
fn locks_of_owners_that_exit_are_passed_on() {
    let (_, domain) = system_and_domain();
    let place = Place::new();
    std::thread::scope(|scope| {
        for worker in 0..3u32 {
            let (domain, place) = (&domain, &place);
            scope.spawn(move || {
                for life in 0..60u32 {
                    let task = domain.task(1 + worker * 1000 + life).expect("it is free");
                    let result = domain.lock_pi(place.lock, &task);
                    match result {
                        Ok(()) => place.be_inside(task.tid()),
                        // No waiter took the lock over, or the new owner has not been polled yet. The word holds the
                        // dead TID.
                        Err(error) => assert!(matches!(error, Error::NoTask | Error::Invalid), "{error}"),
                    }
                    let leaves_it = life % 2 == 1;
                    if result == Ok(()) && !leaves_it {
                        assert_eq!(domain.unlock_pi(place.lock, &task), Ok(()));
                    }
                    drop(task);
                    if result == Err(Error::NoTask) {
                        // Stores the value that a walk of the dead task's robust list would have stored.
                        let value = place.lock.load(SeqCst);
                        if domain.task(value & ufutex::pi::TID_MASK).is_ok() {
                            _ = place.lock.compare_exchange(value, OWNER_DIED, SeqCst, SeqCst);
                        }
                    }
                }
            });
        }
    });
    assert!(place.times.into_inner() > 3);
}

/// The last waiter of a lock leaves while the owner, which unlocks, waits for the graph, in which another thread changes
/// priorities.
fn unlock_finds_its_last_waiter_gone() {
    let (_, domain) = system_and_domain();
    let place = Place::new();
    let [owner, waiter] = [1, 2].map(|tid| domain.task(tid).expect("it is free"));
    let running = AtomicBool::new(true);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for n in 0u32.. {
                    if !running.load(SeqCst) {
                        break;
                    }
                    waiter.set_priority(Priority::realtime((n % 100) as u8));
                }
            });
        }
        let waits = scope.spawn(|| {
            while running.load(SeqCst) {
                let soon = Timeout::After(Duration::from_micros(20));
                if domain.lock_pi_with(place.lock, &waiter, &WaitOptions::new().timeout(soon)).is_ok() {
                    assert_eq!(domain.unlock_pi(place.lock, &waiter), Ok(()));
                }
            }
        });
        for round in 0..3000 {
            assert_eq!(domain.lock_pi(place.lock, &owner), Ok(()));
            // Most of the time the waiter is queued by now, and about to leave.
            for _ in 0..100 * (round % 32) {
                std::hint::spin_loop();
            }
            assert_eq!(domain.unlock_pi(place.lock, &owner), Ok(()));
        }
        running.store(false, SeqCst);
        waits.join().expect("it does not panic");
    });
}

on_domains![
    unlock_finds_its_last_waiter_gone,
    threads_futures_and_changes_of_priority,
    locks_of_owners_that_exit_are_passed_on
];
