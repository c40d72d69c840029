//! The order in which a PI lock is handed over, and the priority that its owner inherits.

use std::sync::atomic::{AtomicI32, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex};
use std::task::Poll;
use std::time::Duration;

use ufutex::{
    Domain, DomainOptions, System, SystemConfig, Task, WaitOptions,
    pi::{Priority, Scheduler},
};

use crate::common::asleep::{Call, futex_call, thread_id, until};
use crate::common::domains::{domain, on_domains};
use crate::common::futures::{pending, pending_with, poll};
use crate::common::places::{Word, words};
use crate::common::platforms::watched;
use crate::common::waker::Notified;
use crate::scheduler::{Log, tasks};

fn prioritise(task: &Task, priority: u8) {
    task.set_priority(Priority::realtime(priority));
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
    only_the_new_owner_is_woken,
    scheduler_gets_the_last_change_last,
];
