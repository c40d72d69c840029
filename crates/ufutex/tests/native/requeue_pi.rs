//! `wait_requeue_pi` and `cmp_requeue_pi`.

use std::sync::atomic::Ordering::Relaxed;
use std::task::Poll;
use std::time::Duration;

use ufutex::{
    Cause, Domain, Error, Timeout, WaitOptions,
    pi::{OWNER_DIED, Priority, WAITERS},
};

use crate::common::domains::{domain, on_domains};
use crate::common::futures::{Boxed, at_once, pending, pending_with, poll};
use crate::common::guest_memory::GuestMemory;
use crate::common::places::{Word, lasting_domain, lasting_task, pairs, words};
use crate::common::sleeping::Sleeping;
use crate::common::waker::Notified;
use crate::scheduler::{Log, tasks};

type Waiting<'d, 't> = Boxed<ufutex::pi::WaitRequeuePi<'d, 't, Word, Word>>;

fn waiting<'d, 't>(domain: &'d Domain, [condition, lock]: [Word; 2], task: &'t ufutex::Task) -> Waiting<'d, 't> {
    pending(domain.wait_requeue_pi_async(condition, 0, lock, task, &WaitOptions::new()))
}

fn first_waiter_gets_a_free_lock_and_the_others_wait_for_it() {
    let domain = domain();
    let tasks = tasks(&domain, [0, 3, 0, 5]);
    for words in pairs() {
        let [condition, lock] = words;
        for requeue in [0, 1, 2, 3, 100] {
            let mut waits: Vec<_> = tasks.iter().map(|task| waiting(&domain, words, task)).collect();
            let count = 4.min(requeue + 1);
            assert_eq!(domain.cmp_requeue_pi(condition, 0, lock, requeue), Ok(count));
            // Task 4 has the lock. The next waiters for it are 2, 1 and 3.
            assert_eq!(lock.load(Relaxed), if requeue == 0 { 4 } else { WAITERS | 4 });
            let order = [3, 1, 0, 2];
            for (i, &task) in order[..count].iter().enumerate() {
                for &other in &order[i + 1..] {
                    assert_eq!(poll(&mut waits[other]), Poll::Pending);
                }
                assert_eq!(poll(&mut waits[task]), Poll::Ready(Ok(())));
                assert_eq!(domain.unlock_pi(lock, &tasks[task]), Ok(()));
            }
            assert_eq!(lock.load(Relaxed), 0);
            // The waiters that were not requeued still wait for the word.
            assert_eq!(domain.cmp_requeue_pi(condition, 0, lock, 0), Ok(usize::from(count < 4)));
            drop(waits);
            assert_eq!((lock.load(Relaxed), domain.cmp_requeue_pi(condition, 0, lock, 9)), (0, Ok(0)));
        }
    }
}

fn all_waiters_are_requeued_to_a_taken_lock_and_boost_its_owner() {
    let (log, domain) = Log::domain();
    let tasks = tasks(&domain, [0, 8, 4, 6, 2]);
    for words in pairs() {
        let [condition, lock] = words;
        assert_eq!(domain.lock_pi(lock, &tasks[0]), Ok(()));
        let mut waits: Vec<_> = tasks[1..].iter().map(|task| waiting(&domain, words, task)).collect();
        assert_eq!(log.priorities(&[&tasks[0]]), [0], "a waiter for a plain word boosts no task");
        assert_eq!(domain.cmp_requeue_pi(condition, 0, lock, 0), Ok(1));
        assert_eq!((log.priorities(&[&tasks[0]]), lock.load(Relaxed)), (vec![8], WAITERS | 1));
        assert_eq!(domain.cmp_requeue_pi(condition, 0, lock, 1), Ok(2));
        assert_eq!(domain.cmp_requeue_pi(condition, 0, lock, 9), Ok(1));
        assert!(waits.iter_mut().all(|wait| poll(wait).is_pending()));
        let mut owner = 0;
        for next in [1, 3, 2, 4] {
            assert_eq!(domain.unlock_pi(lock, &tasks[owner]), Ok(()));
            assert_eq!(poll(&mut waits[next - 1]), Poll::Ready(Ok(())));
            owner = next;
        }
        assert_eq!((domain.unlock_pi(lock, &tasks[owner]), lock.load(Relaxed)), (Ok(()), 0));
        assert_eq!(log.priorities(&tasks.each_ref()), [0, 8, 4, 6, 2]);
    }
}

fn threads_wait_and_have_the_lock_on_return() {
    let domain: &'static Domain = lasting_domain();
    let tasks = [1, 2].map(|tid| lasting_task(domain, tid));
    let [condition, lock]: [Word; 2] = words();
    let [first, second] =
        tasks.map(|task| Sleeping::new(move || domain.wait_requeue_pi(condition, 0, lock, task, &WaitOptions::new())));
    assert_eq!(domain.cmp_requeue_pi(condition, 0, lock, 1), Ok(2));
    assert_eq!((first.outcome(), lock.load(Relaxed)), (Ok(()), WAITERS | 1));
    assert!(second.is_asleep());
    assert_eq!(domain.unlock_pi(lock, tasks[0]), Ok(()));
    assert_eq!((second.outcome(), lock.load(Relaxed)), (Ok(()), WAITERS | 2));
    assert_eq!(domain.unlock_pi(lock, tasks[1]), Ok(()));
    // No call requeues this wait.
    let soon = Some(Timeout::After(Duration::from_millis(2)));
    assert_eq!(
        domain.wait_requeue_pi(condition, 0, lock, tasks[0], &WaitOptions::new().maybe_timeout(soon)),
        Err(Error::TimedOut)
    );
    assert_eq!(domain.cmp_requeue_pi(condition, 0, lock, 1), Ok(0));
}

fn waker_is_woken_by_the_hand_over_and_not_by_the_requeue() {
    let domain = domain();
    let [owner, task] = tasks(&domain, [0; 2]);
    for [condition, lock] in pairs() {
        let [(first, first_waker), (second, second_waker), (third, third_waker)] = [(); 3].map(|()| Notified::new());
        assert_eq!(domain.lock_pi(lock, &owner), Ok(()));
        let mut wait =
            pending_with(domain.wait_requeue_pi_async(condition, 0, lock, &task, &WaitOptions::new()), &first_waker);
        assert!(crate::common::futures::poll_with(&mut wait, &second_waker).is_pending());
        assert_eq!(domain.cmp_requeue_pi(condition, 0, lock, 0), Ok(1));
        assert!(crate::common::futures::poll_with(&mut wait, &third_waker).is_pending());
        assert_eq!(domain.unlock_pi(lock, &owner), Ok(()));
        assert_eq!([first, second, third].map(|notified| notified.times()), [0, 0, 1]);
        assert_eq!(poll(&mut wait), Poll::Ready(Ok(())));
        assert_eq!(domain.unlock_pi(lock, &task), Ok(()));
    }
}

fn lock_with_an_invalid_owner() {
    let domain = domain();
    let [a, b, c] = tasks(&domain, [0; 3]);
    let _kernels = domain.kernel_task(9).expect("it is free");
    for words in pairs() {
        let [condition, lock] = words;
        let mut waits = [&a, &b, &c].map(|task| waiting(&domain, words, task));
        for (owner, error) in [(8, Error::NoTask), (9, Error::NotPermitted), (1, Error::Deadlock)] {
            lock.store(owner, Relaxed);
            assert_eq!(domain.cmp_requeue_pi(condition, 0, lock, 3), Err(error));
        }
        // Task 2, the second waiter, owns the lock itself, so its requeue fails. Task 1 has been requeued before.
        lock.store(2, Relaxed);
        assert_eq!(domain.cmp_requeue_pi(condition, 0, lock, 3), Err(Error::Deadlock));
        assert!(waits.iter_mut().all(|wait| poll(wait).is_pending()));
        assert_eq!(waits[1].as_mut().end(Cause::TimedOut), Err(Error::TimedOut));
        assert_eq!(domain.unlock_pi(lock, &b), Ok(()));
        let [first, _, third] = &mut waits;
        assert_eq!((poll(first), poll(third)), (Poll::Ready(Ok(())), Poll::Pending));
        assert_eq!(domain.unlock_pi(lock, &a), Ok(()));
        assert_eq!(domain.cmp_requeue_pi(condition, 0, lock, 3), Ok(1));
        assert_eq!(poll(third), Poll::Ready(Ok(())));
        assert_eq!((domain.unlock_pi(lock, &c), lock.load(Relaxed)), (Ok(()), 0));
    }
}

/// The error of a wait that ends depends on whether it has been requeued.
fn error_of_an_ended_wait_depends_on_the_requeue() {
    for (cause, before, after) in
        [(Cause::TimedOut, Error::TimedOut, Error::TimedOut), (Cause::Interrupted, Error::Interrupted, Error::Again)]
    {
        let domain = domain();
        let [owner, task] = tasks(&domain, [0, 5]);
        for words in pairs() {
            let [condition, lock] = words;
            // Ends before the requeue.
            assert_eq!(waiting(&domain, words, &task).as_mut().end(cause), Err(before));
            assert_eq!(domain.cmp_requeue_pi(condition, 0, lock, 1), Ok(0));
            // Ends after the requeue.
            assert_eq!(domain.lock_pi(lock, &owner), Ok(()));
            let mut wait = waiting(&domain, words, &task);
            assert_eq!(domain.cmp_requeue_pi(condition, 0, lock, 1), Ok(1));
            assert_eq!(wait.as_mut().end(cause), Err(after));
            assert_eq!(owner.priority(), Priority::NORMAL);
            assert_eq!((domain.unlock_pi(lock, &owner), lock.load(Relaxed)), (Ok(()), 0));
            // Ends after it was handed the lock.
            let mut wait = waiting(&domain, words, &task);
            assert_eq!(domain.cmp_requeue_pi(condition, 0, lock, 0), Ok(1));
            assert_eq!((wait.as_mut().end(cause), lock.load(Relaxed)), (Ok(()), 2));
            drop(wait);
            assert_eq!((domain.unlock_pi(lock, &task), lock.load(Relaxed)), (Ok(()), 0));
        }
    }
}

fn wait_ended_before_its_first_poll_was_not_requeued() {
    let domain = domain();
    let [task] = tasks(&domain, [0]);
    let [condition, lock] = words();
    for (cause, error) in [(Cause::TimedOut, Error::TimedOut), (Cause::Interrupted, Error::Interrupted)] {
        let mut wait = Box::pin(domain.wait_requeue_pi_async(condition, 0, lock, &task, &WaitOptions::new()));
        assert_eq!(wait.as_mut().end(cause), Err(error));
    }
}

fn wait_ended_after_owner_death_has_the_lock() {
    for cause in [Some(Cause::TimedOut), Some(Cause::Interrupted), None] {
        let domain = domain();
        let [owner, task, next] = tasks(&domain, [0; 3]);
        let [condition, lock] = words();
        assert_eq!(domain.lock_pi(lock, &owner), Ok(()));
        let mut wait = waiting(&domain, [condition, lock], &task);
        assert_eq!(domain.cmp_requeue_pi(condition, 0, lock, 1), Ok(1));
        let mut next_waits = pending(domain.lock_pi_async(lock, &next, &WaitOptions::new()));
        drop(owner);
        let result = match cause {
            Some(cause) => Poll::Ready(wait.as_mut().end(cause)),
            None => poll(&mut wait),
        };
        assert_eq!((result, lock.load(Relaxed)), (Poll::Ready(Ok(())), OWNER_DIED | WAITERS | 2));
        assert_eq!(domain.unlock_pi(lock, &task), Ok(()));
        assert_eq!(poll(&mut next_waits), Poll::Ready(Ok(())));
    }
}

fn dropped_wait_leaves_the_queue_or_passes_the_lock_on() {
    let domain = domain();
    let [owner, task, next] = tasks(&domain, [0, 5, 0]);
    for words in pairs() {
        let [condition, lock] = words;
        drop(waiting(&domain, words, &task));
        assert_eq!(domain.cmp_requeue_pi(condition, 0, lock, 1), Ok(0));
        // Dropped after the requeue.
        assert_eq!(domain.lock_pi(lock, &owner), Ok(()));
        let dropped = waiting(&domain, words, &task);
        let mut stays = waiting(&domain, words, &next);
        assert_eq!(domain.cmp_requeue_pi(condition, 0, lock, 1), Ok(2));
        drop(dropped);
        assert_eq!(owner.priority(), Priority::NORMAL);
        assert_eq!(domain.unlock_pi(lock, &owner), Ok(()));
        assert_eq!((poll(&mut stays), lock.load(Relaxed)), (Poll::Ready(Ok(())), WAITERS | 3));
        assert_eq!((domain.unlock_pi(lock, &next), lock.load(Relaxed)), (Ok(()), 0));
        // Dropped after the requeue itself has handed it the lock.
        let dropped = waiting(&domain, words, &task);
        let mut stays = waiting(&domain, words, &next);
        assert_eq!(domain.cmp_requeue_pi(condition, 0, lock, 1), Ok(2));
        assert_eq!(lock.load(Relaxed), WAITERS | 2);
        drop(dropped);
        assert_eq!((poll(&mut stays), lock.load(Relaxed)), (Poll::Ready(Ok(())), WAITERS | 3));
        assert_eq!(domain.unlock_pi(lock, &next), Ok(()));
    }
    // Dropped after the owner's death has made it the new owner.
    let [condition, lock] = words();
    assert_eq!(domain.lock_pi(lock, &owner), Ok(()));
    let dropped = waiting(&domain, [condition, lock], &task);
    let mut stays = waiting(&domain, [condition, lock], &next);
    assert_eq!(domain.cmp_requeue_pi(condition, 0, lock, 1), Ok(2));
    drop(owner);
    drop(dropped);
    assert_eq!((poll(&mut stays), lock.load(Relaxed)), (Poll::Ready(Ok(())), OWNER_DIED | WAITERS | 3));
}

fn faults_of_both_words() {
    let (domain, memory) = (domain(), GuestMemory::new());
    let [owner, task] = tasks(&domain, [0; 2]);
    let (condition, lock) = (memory.target(0), memory.target(256));
    memory.fault_next_loads(3);
    let mut wait = pending(domain.wait_requeue_pi_async(condition, 0, lock, &task, &WaitOptions::new()));
    memory.fault_next_loads(3);
    memory.fault_next_exchanges(2);
    assert_eq!(domain.cmp_requeue_pi(condition, 0, lock, 3), Ok(1), "counted once");
    assert_eq!(poll(&mut wait), Poll::Ready(Ok(())));
    assert_eq!(domain.unlock_pi(lock, &task), Ok(()));
    memory.lose();
    assert_eq!(
        at_once(domain.wait_requeue_pi_async(condition, 0, lock, &task, &WaitOptions::new())),
        Err(Error::Fault)
    );
    assert_eq!(domain.cmp_requeue_pi(condition, 0, lock, 3), Err(Error::Fault));
    memory.restore();
    // The lock has an owner and cannot be written: all waiters stay on the condition.
    assert_eq!(domain.lock_pi(lock, &owner), Ok(()));
    let mut wait = pending(domain.wait_requeue_pi_async(condition, 0, lock, &task, &WaitOptions::new()));
    memory.make_read_only(true);
    assert_eq!(domain.cmp_requeue_pi(condition, 0, lock, 3), Err(Error::Fault));
    memory.make_read_only(false);
    assert_eq!(wait.as_mut().end(Cause::Interrupted), Err(Error::Interrupted), "not requeued");
    // The lock's word is read even if the condition has no waiters.
    memory.fault_loads_of(256);
    memory.lose();
    let [elsewhere] = words();
    assert_eq!(domain.cmp_requeue_pi(elsewhere, 0, lock, 1), Err(Error::Fault));
}

fn value_that_the_word_cannot_hold() {
    let (domain, memory) = (domain(), GuestMemory::new());
    let [from, lock] = [0, 64].map(|offset| memory.target(offset));
    assert_eq!(domain.cmp_requeue_pi(from, 1 << 32, lock, 1), Err(Error::Invalid));
    assert_eq!(domain.cmp_requeue_pi(from, 1, lock, 1), Err(Error::Again));
}

fn task_waits_once_at_a_time() {
    let domain = domain();
    let [owner, task] = tasks(&domain, [0; 2]);
    for words in pairs() {
        let [condition, lock] = words;
        assert_eq!(domain.lock_pi(lock, &owner), Ok(()));
        let mut first = waiting(&domain, words, &task);
        for _ in 0..2 {
            assert_eq!(
                at_once(domain.wait_requeue_pi_async(condition, 0, lock, &task, &WaitOptions::new())),
                Err(Error::Busy)
            );
            assert_eq!(at_once(domain.lock_pi_async(lock, &task, &WaitOptions::new())), Err(Error::Busy));
        }
        assert_eq!(domain.cmp_requeue_pi(condition, 0, lock, 5), Ok(1));
        assert_eq!(
            at_once(domain.wait_requeue_pi_async(condition, 0, lock, &task, &WaitOptions::new())),
            Err(Error::Busy)
        );
        assert_eq!(domain.unlock_pi(lock, &owner), Ok(()));
        assert_eq!(poll(&mut first), Poll::Ready(Ok(())));
        assert_eq!((domain.unlock_pi(lock, &task), lock.load(Relaxed)), (Ok(()), 0));
        // After a wait has ended in any way, the task may begin the next one.
        drop(waiting(&domain, words, &task));
        assert_eq!(waiting(&domain, words, &task).as_mut().end(Cause::TimedOut), Err(Error::TimedOut));
        drop(waiting(&domain, words, &task));
    }
}

on_domains![
    first_waiter_gets_a_free_lock_and_the_others_wait_for_it,
    all_waiters_are_requeued_to_a_taken_lock_and_boost_its_owner,
    threads_wait_and_have_the_lock_on_return,
    waker_is_woken_by_the_hand_over_and_not_by_the_requeue,
    lock_with_an_invalid_owner,
    error_of_an_ended_wait_depends_on_the_requeue,
    wait_ended_before_its_first_poll_was_not_requeued,
    wait_ended_after_owner_death_has_the_lock,
    dropped_wait_leaves_the_queue_or_passes_the_lock_on,
    faults_of_both_words,
    task_waits_once_at_a_time,
    value_that_the_word_cannot_hold,
];
