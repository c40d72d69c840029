//! Locks that lend priority: whose they are, and what is an error.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Poll;
use std::time::Duration;

use ufutex::layout::Layout;
use ufutex::scheme::Scheme;
use ufutex::{Access, Domain, Error, OWNER_DIED, Options, Priority, System, Target, Task, Timeout, WAITERS};

use crate::common::domains::{domain, on_every_scheme, system};
use crate::common::waiters::{idle, queue};
use crate::futures::{at_once, pending, poll};
use crate::memory::Memory;
use crate::places::{Word, lasting_domain, lasting_task, words};
use crate::scheduler::tasks;
use crate::sleeping::Sleeping;

fn free_lock_is_taken_without_a_wait_and_given_back<S: Scheme<L>, L: Layout>() {
    let domain = domain::<S, L>();
    let [task, other] = tasks(&domain, [0; 2]);
    let [word] = words();
    let unlocked = || {
        assert_eq!((domain.unlock_pi(word, &task), word.load(Relaxed)), (Ok(()), 0));
        assert_eq!(domain.unlock_pi(word, &task), Err(Error::NotPermitted));
    };
    assert_eq!((domain.lock_pi(word, &task, None), word.load(Relaxed)), (Ok(()), 1));
    unlocked();
    assert_eq!((at_once(domain.lock_pi_async(word, &task)), word.load(Relaxed)), (Ok(()), 1));
    assert_eq!(domain.unlock_pi(word, &other), Err(Error::NotPermitted));
    unlocked();
    assert_eq!((domain.try_lock_pi(word, &task), word.load(Relaxed)), (Ok(()), 1));
    assert_eq!(domain.try_lock_pi(word, &task), Err(Error::Deadlock));
    assert_eq!(domain.lock_pi(word, &task, None), Err(Error::Deadlock));
    assert_eq!(at_once(domain.lock_pi_async(word, &task)), Err(Error::Deadlock));
    assert_eq!(domain.try_lock_pi(word, &other), Err(Error::Again));
    assert_eq!(word.load(Relaxed), WAITERS | 1, "set by who tried");
    unlocked();
}

fn lock_keeps_owner_died_of_a_free_word<S: Scheme<L>, L: Layout>() {
    let domain = domain::<S, L>();
    let task = domain.task(1).expect("it is free");
    let [word] = words();
    for lock in [Domain::try_lock_pi, |domain: &Domain<S, L>, word, task: &Task<L>| domain.lock_pi(word, task, None)] {
        word.store(OWNER_DIED, Relaxed);
        assert_eq!((lock(&domain, word, &task), word.load(Relaxed)), (Ok(()), OWNER_DIED | 1));
        assert_eq!((domain.unlock_pi(word, &task), word.load(Relaxed)), (Ok(()), 0));
    }
}

fn owner_hands_the_lock_to_waiters_of_every_kind_in_their_order<S: Scheme<L>, L: Layout>() {
    let domain: &'static Domain<S, L> = lasting_domain();
    let [owner, of_thread, of_future, last] = [1, 2, 3, 4].map(|tid| lasting_task(domain, tid));
    let [word]: [Word; 1] = words();
    assert_eq!(domain.lock_pi(word, owner, None), Ok(()));
    let thread = Sleeping::new(move || domain.lock_pi(word, of_thread, None));
    let mut future = pending(domain.lock_pi_async(word, of_future));
    let thread_again = Sleeping::new(move || domain.lock_pi(word, last, None));
    assert_eq!(word.load(Relaxed), WAITERS | 1);
    assert_eq!((domain.unlock_pi(word, owner), word.load(Relaxed)), (Ok(()), WAITERS | 2));
    assert_eq!((thread.outcome(), poll(&mut future)), (Ok(()), Poll::Pending));
    assert_eq!(domain.unlock_pi(word, owner), Err(Error::NotPermitted));
    assert_eq!(domain.unlock_pi(word, of_thread), Ok(()));
    assert!(thread_again.is_asleep());
    assert_eq!((poll(&mut future), word.load(Relaxed)), (Poll::Ready(Ok(())), WAITERS | 3));
    assert_eq!(domain.unlock_pi(word, of_future), Ok(()));
    assert_eq!((thread_again.outcome(), word.load(Relaxed)), (Ok(()), WAITERS | 4));
    assert_eq!((domain.unlock_pi(word, last), word.load(Relaxed)), (Ok(()), 0));
}

fn thread_times_out_and_leaves_the_waiters_bit<S: Scheme<L>, L: Layout>() {
    let domain = domain::<S, L>();
    let [owner, waiter] = tasks(&domain, [0, 5]);
    let [word] = words();
    assert_eq!(domain.lock_pi(word, &owner, None), Ok(()));
    let soon = Some(Timeout::After(Duration::from_millis(2)));
    assert_eq!(domain.lock_pi(word, &waiter, soon), Err(Error::TimedOut));
    assert_eq!((word.load(Relaxed), owner.priority()), (WAITERS | 1, Priority::NORMAL));
    assert_eq!((domain.unlock_pi(word, &owner), word.load(Relaxed)), (Ok(()), 0));
    // A free lock is taken though the time is up.
    assert_eq!(domain.lock_pi(word, &waiter, Some(Timeout::After(Duration::ZERO))), Ok(()));
}

fn plain_wakes_do_not_reach_waiters_of_a_lock<S: Scheme<L>, L: Layout>() {
    let domain = domain::<S, L>();
    let [owner, waiter] = tasks(&domain, [0; 2]);
    let [word] = words();
    assert_eq!(domain.lock_pi(word, &owner, None), Ok(()));
    let mut lock = pending(domain.lock_pi_async(word, &waiter));
    assert_eq!(domain.wake(word, usize::MAX), 0);
    let all = crate::common::waiters::nonzero(u32::MAX);
    assert_eq!(domain.try_wake_bitset(word, usize::MAX, all), Err(Error::Invalid));
    assert_eq!(domain.requeue(word, words::<1>()[0], 0, 1), Err(Error::Invalid));
    assert_eq!(poll(&mut lock), Poll::Pending);
    assert_eq!(domain.unlock_pi(word, &owner), Ok(()));
    assert_eq!(poll(&mut lock), Poll::Ready(Ok(())));
}

/// [S3] of the table of states.
fn plain_waiter_in_the_locks_queue_is_invalid<S: Scheme<L>, L: Layout>() {
    let domain = domain::<S, L>();
    let [owner, other] = tasks(&domain, [0; 2]);
    let [word] = words();
    let mut waiters = idle(1);
    let queued = queue(&domain, &mut waiters[0], word);
    assert_eq!(domain.lock_pi(word, &owner, None), Err(Error::Invalid));
    assert_eq!(domain.try_lock_pi(word, &owner), Err(Error::Invalid));
    assert_eq!(at_once(domain.lock_pi_async(word, &owner)), Err(Error::Invalid));
    word.store(1, Relaxed);
    assert_eq!(domain.unlock_pi(word, &owner), Err(Error::Invalid));
    assert_eq!(domain.unlock_pi(word, &other), Err(Error::NotPermitted), "the word is looked at first");
    assert!(queued.cancel());
    assert_eq!(domain.unlock_pi(word, &owner), Ok(()));
}

/// [S5] to [S10].
fn word_that_somebody_else_wrote_is_invalid<S: Scheme<L>, L: Layout>() {
    let domain = domain::<S, L>();
    let [owner, waiter, other] = tasks(&domain, [0; 3]);
    let [word] = words();
    assert_eq!(domain.lock_pi(word, &owner, None), Ok(()));
    let mut lock = pending(domain.lock_pi_async(word, &waiter));
    for value in [0, WAITERS, 2, WAITERS | 2, WAITERS | OWNER_DIED | 2, 77] {
        word.store(value, Relaxed);
        assert_eq!(at_once(domain.lock_pi_async(word, &other)), Err(Error::Invalid), "{value:#x}");
        assert_eq!(domain.try_lock_pi(word, &other), Err(Error::Invalid), "{value:#x}");
        if value & 0xff == 2 {
            assert_eq!(domain.unlock_pi(word, &waiter), Err(Error::Invalid), "it is not the owner");
        }
        assert_eq!(domain.unlock_pi(word, &owner), Err(Error::NotPermitted));
    }
    for value in [WAITERS | 1, 1, WAITERS | OWNER_DIED | 1, OWNER_DIED] {
        word.store(value, Relaxed);
        drop(pending(domain.lock_pi_async(word, &other)));
    }
    assert_eq!(poll(&mut lock), Poll::Pending);
    word.store(WAITERS | 1, Relaxed);
    assert_eq!(domain.unlock_pi(word, &owner), Ok(()));
    assert_eq!(poll(&mut lock), Poll::Ready(Ok(())));
}

fn owner_that_does_not_exist_or_is_the_kernels<S: Scheme<L>, L: Layout>() {
    let domain = domain::<S, L>();
    let [task] = tasks(&domain, [0]);
    let [word] = words();
    let kernels = domain.kernel_task(9).expect("it is free");
    for (owner, error) in [(8, Error::NoTask), (9, Error::NotPermitted)] {
        for _ in 0..2 {
            word.store(owner, Relaxed);
            assert_eq!(domain.lock_pi(word, &task, None), Err(error));
            assert_eq!(word.load(Relaxed), WAITERS | owner, "which stays set");
            assert_eq!(at_once(domain.lock_pi_async(word, &task)), Err(error));
            assert_eq!(domain.try_lock_pi(word, &task), Err(error));
        }
    }
    drop(kernels);
    assert_eq!(domain.lock_pi(word, &task, None), Err(Error::NoTask));
    word.store(0, Relaxed);
    assert_eq!(domain.lock_pi(word, &task, None), Ok(()));
}

fn deadlock_is_found_along_a_chain<S: Scheme<L>, L: Layout>() {
    let domain = domain::<S, L>();
    let [a, b, c, outsider] = tasks(&domain, [0; 4]);
    let [of_a, of_b, of_c] = words();
    for (word, task) in [(of_a, &a), (of_b, &b), (of_c, &c)] {
        assert_eq!(domain.lock_pi(word, task, None), Ok(()));
    }
    let mut b_waits = pending(domain.lock_pi_async(of_a, &b));
    assert_eq!(at_once(domain.lock_pi_async(of_b, &a)), Err(Error::Deadlock));
    let mut c_waits = pending(domain.lock_pi_async(of_b, &c));
    assert_eq!(domain.lock_pi(of_c, &a, None), Err(Error::Deadlock));
    assert_eq!(of_c.load(Relaxed), WAITERS | 3, "which stays set");
    assert_eq!(domain.try_lock_pi(of_c, &a), Err(Error::Again), "who tries does not wait");
    let mut outsider_waits = pending(domain.lock_pi_async(of_c, &outsider));
    // And the way out is open.
    for (word, task, next) in [(of_a, &a, &mut b_waits), (of_b, &b, &mut c_waits), (of_c, &c, &mut outsider_waits)] {
        assert_eq!(domain.unlock_pi(word, task), Ok(()));
        assert_eq!(poll(next), Poll::Ready(Ok(())));
    }
    // B has A's lock and its own is C's by now: nothing waits for it.
    assert_eq!(domain.unlock_pi(of_a, &b), Ok(()));
    assert_eq!(at_once(domain.lock_pi_async(of_a, &outsider)), Ok(()));
}

fn task_waits_in_one_place_at_a_time<S: Scheme<L>, L: Layout>() {
    let domain: &'static Domain<S, L> = lasting_domain();
    let [owner, waiter] = [1, 2].map(|tid| lasting_task(domain, tid));
    let [first, second]: [Word; 2] = words();
    assert_eq!(domain.lock_pi(first, owner, None), Ok(()));
    assert_eq!(domain.lock_pi(second, owner, None), Ok(()));
    let mut lock = pending(domain.lock_pi_async(first, waiter));
    assert_eq!(at_once(domain.lock_pi_async(second, waiter)), Err(Error::Busy));
    assert_eq!(at_once(domain.lock_pi_async(first, waiter)), Err(Error::Busy));
    assert_eq!(domain.lock_pi(second, waiter, None), Err(Error::Busy));
    assert_eq!((domain.unlock_pi(second, owner), second.load(Relaxed)), (Ok(()), 0));
    assert_eq!(domain.unlock_pi(first, owner), Ok(()));
    assert_eq!(poll(&mut lock), Poll::Ready(Ok(())));
    drop(lock);
    // The same for threads.
    assert_eq!(domain.lock_pi(second, owner, None), Ok(()));
    let thread = Sleeping::new(move || domain.lock_pi(second, waiter, None));
    assert_eq!(domain.wait_requeue_pi(words::<1>()[0], 0, second, waiter, None), Err(Error::Busy));
    assert_eq!(domain.unlock_pi(second, owner), Ok(()));
    assert_eq!(thread.outcome(), Ok(()));
}

/// Every operation on a lock, of a task that it is not for.
fn refuse<S: Scheme<L>, L: Layout, T: Target<Value: From<u8>> + Copy>(domain: &Domain<S, L>, word: T, task: &Task<L>) {
    let [condition] = words();
    assert_eq!(domain.lock_pi(word, task, None), Err(Error::Invalid));
    assert_eq!(at_once(domain.lock_pi_async(word, task)), Err(Error::Invalid));
    assert_eq!(domain.try_lock_pi(word, task), Err(Error::Invalid));
    assert_eq!(domain.unlock_pi(word, task), Err(Error::Invalid));
    assert_eq!(domain.wait_requeue_pi(condition, 0, word, task, None), Err(Error::Invalid));
    assert_eq!(at_once(domain.wait_requeue_pi_async(condition, 0, word, task)), Err(Error::Invalid));
    assert!(word.load() == Ok(0.into()));
}

fn task_of_another_domain_or_system_is_invalid<S: Scheme<L>, L: Layout>() {
    let system: System<L> = system();
    let [domain, other] = [(); 2].map(|()| Domain::<S, L>::with_options(&system, Options::new()));
    let stranger = crate::common::domains::domain::<S, L>();
    let [word] = words();
    refuse(&domain, word, &other.task(5).expect("it is free"));
    refuse(&domain, word, &stranger.task(5).expect("it is free"));
}

fn word_of_another_width_is_invalid<S: Scheme<L>, L: Layout>() {
    let domain = domain::<S, L>();
    refuse(&domain, &AtomicU64::new(0), &domain.task(5).expect("it is free"));
    refuse(&domain, &std::sync::atomic::AtomicU16::new(0), &domain.task(6).expect("it is free"));
}

fn tid_is_of_one_living_task_and_fits_the_word<S: Scheme<L>, L: Layout>() {
    let system: System<L> = system();
    let [domain, other] = [(); 2].map(|()| Domain::<S, L>::with_options(&system, Options::new()));
    for tid in [0, 1 << 30, WAITERS | 1, u32::MAX] {
        assert_eq!(domain.task(tid).err(), Some(Error::Invalid));
        assert_eq!(domain.kernel_task(tid).err(), Some(Error::Invalid));
    }
    let task = domain.task((1 << 30) - 1).expect("it is free");
    assert_eq!(other.task(task.tid()).err(), Some(Error::Busy));
    assert_eq!(domain.kernel_task(task.tid()).err(), Some(Error::Busy));
    let tid = task.tid();
    drop(task);
    assert_eq!(other.task(tid).map(|task| task.tid()), Ok(tid));
}

fn faults_of_the_lock_are_cured<S: Scheme<L>, L: Layout>() {
    for (reads, writes) in [(1, 0), (0, 1), (3, 2), (0, 400)] {
        let (domain, memory) = (domain::<S, L>(), Memory::new());
        let [owner, waiter] = tasks(&domain, [0; 2]);
        let word = memory.target(0);
        let fault = || {
            memory.fault_next_reads(reads);
            memory.fault_next_writes(writes);
        };
        fault();
        assert_eq!(domain.lock_pi(word, &owner, None), Ok(()));
        fault();
        assert_eq!(domain.try_lock_pi(word, &waiter), Err(Error::Again));
        fault();
        let mut lock = pending(domain.lock_pi_async(word, &waiter));
        fault();
        assert_eq!(domain.unlock_pi(word, &owner), Ok(()));
        assert_eq!(poll(&mut lock), Poll::Ready(Ok(())));
        fault();
        assert_eq!(domain.unlock_pi(word, &waiter), Ok(()));
        fault();
        assert_eq!(domain.try_lock_pi(word, &owner), Ok(()));
        assert!(memory.faulted_in().iter().all(|&(at, _)| at == memory.at(0)));
    }
}

fn lock_that_cannot_be_written_is_a_fault_and_nobody_waits<S: Scheme<L>, L: Layout>() {
    let (domain, memory) = (domain::<S, L>(), Memory::new());
    let [owner, waiter] = tasks(&domain, [0, 9]);
    let word = memory.target(0);
    let refused = || {
        assert_eq!(domain.lock_pi(word, &waiter, None), Err(Error::Fault));
        assert_eq!(at_once(domain.lock_pi_async(word, &waiter)), Err(Error::Fault));
        assert_eq!(domain.try_lock_pi(word, &waiter), Err(Error::Fault));
        assert_eq!(owner.priority(), Priority::NORMAL);
    };
    memory.make_read_only(true);
    refused();
    memory.word(0).store(1, Relaxed);
    refused();
    assert_eq!(domain.unlock_pi(word, &owner), Err(Error::Fault));
    assert!(memory.faulted_in().contains(&(memory.at(0), Access::Write)));
    memory.lose();
    refused();
    assert_eq!(domain.unlock_pi(word, &owner), Err(Error::Fault));
    memory.find();
    memory.make_read_only(false);
    let mut lock = pending(domain.lock_pi_async(word, &waiter));
    memory.make_read_only(true);
    assert_eq!(domain.unlock_pi(word, &owner), Err(Error::Fault));
    assert_eq!((poll(&mut lock), owner.priority()), (Poll::Pending, Priority::realtime(9)), "nothing has changed");
    memory.make_read_only(false);
    assert_eq!(domain.unlock_pi(word, &owner), Ok(()));
    assert_eq!(poll(&mut lock), Poll::Ready(Ok(())));
}

on_every_scheme![
    free_lock_is_taken_without_a_wait_and_given_back,
    lock_keeps_owner_died_of_a_free_word,
    owner_hands_the_lock_to_waiters_of_every_kind_in_their_order,
    thread_times_out_and_leaves_the_waiters_bit,
    plain_wakes_do_not_reach_waiters_of_a_lock,
    plain_waiter_in_the_locks_queue_is_invalid,
    word_that_somebody_else_wrote_is_invalid,
    owner_that_does_not_exist_or_is_the_kernels,
    deadlock_is_found_along_a_chain,
    task_waits_in_one_place_at_a_time,
    task_of_another_domain_or_system_is_invalid,
    word_of_another_width_is_invalid,
    tid_is_of_one_living_task_and_fits_the_word,
    faults_of_the_lock_are_cured,
    lock_that_cannot_be_written_is_a_fault_and_nobody_waits,
];
