//! The engine without memory. It returns `NoMemory` where that is documented, keeps using the table that it has, and
//! loses no waiter.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::AtomicU32;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ufutex::{
    At, Compare, Domain, DomainOptions, Error, Modify, PidNamespace, Policy, Queued, SharedObject, StaticDomain,
    System, SystemConfig, WaitOptions, Waiter, WakeOp,
};

use crate::allocator::for_every_failure;
use crate::common::domains::{domain, on_domains, on_resizable_domains, system};
use crate::common::waiters::{Boxed, idle, queue};

fn words(count: usize) -> Vec<AtomicU32> {
    (0..count).map(|_| AtomicU32::new(0)).collect()
}

#[test]
#[cfg_attr(feature = "percpu", ignore = "without memory for a counter per CPU the scheme has one")]
fn domain_of_a_static_cannot_be_made() {
    let (word, at_once) = (AtomicU32::new(0), WaitOptions::new().timeout(Duration::ZERO));
    let failures = for_every_failure(|memory| {
        let futexes = StaticDomain::with(SystemConfig::new().cpus(1).hash_seed(1), DomainOptions::new());
        let made = memory.during(|| futexes.get().err());
        assert_eq!(made, memory.has_failed().then_some(Error::NoMemory));
        assert_eq!(futexes.wake(&word, 1), 0);
        let domain = futexes.get().expect("the next wait tries again");
        assert_eq!(domain.wait_with(&word, 0, &at_once), Err(Error::TimedOut));
    });
    assert!(failures >= 3, "a system and the domain consist of three allocations at least");
}

fn pid_namespace_without_memory() {
    let failures = for_every_failure(|memory| {
        let system = system();
        let namespace = memory.during(|| PidNamespace::new(&system));
        assert_eq!(namespace.as_ref().err(), memory.has_failed().then_some(&Error::NoMemory));
        if let Ok(namespace) = namespace {
            let domain = Domain::in_namespace(&namespace, DomainOptions::new());
            assert_eq!(domain.task(1).map(|task| task.tid()), Ok(1));
        }
    });
    assert_eq!(failures, 4, "a namespace, its driver and the group of its timers, and a small table for shared words");
}

#[test]
fn shared_object_without_memory() {
    let failures = for_every_failure(|memory| {
        let system = system();
        let object = memory.during(|| SharedObject::new(&system));
        assert_eq!(object.as_ref().err(), memory.has_failed().then_some(&Error::NoMemory));
        // The place of an object whose table was refused is free again.
        drop(object);
        assert_eq!(SharedObject::new(&system).map(|object| object.id().get() & 0xff_ffff), Ok(0));
    });
    assert_eq!(failures, 3, "a list of places in two allocations, and a table");
}

fn counters_count_without_memory() {
    let failures = for_every_failure(|memory| {
        let system = System::with_config(SystemConfig::new().cpus(4).hash_seed(1)).expect("the memory is there");
        let domain = memory.during(|| Domain::with_options(&system, DomainOptions::new().counters(true)));
        let word = AtomicU32::new(0);
        assert_eq!(domain.wait(&word, 1), Err(Error::Again));
        assert_eq!(domain.wake(&word, 1), 0);
        let counters = memory.during(|| domain.counters());
        assert_eq!((counters.mismatches, counters.empty_wakes), (1, 1));
    });
    assert!(failures >= 1, "there is a line for each CPU");
}

fn who_waits_counts_the_words_that_it_omits_for_lack_of_memory() {
    let failures = for_every_failure(|memory| {
        let domain = domain();
        let (words, mut waiters) = (words(500), idle(500));
        let queued = queue_each(&domain, &words, &mut waiters);
        let found = memory.during(|| domain.who_waits(usize::MAX));
        assert_eq!(found.iter().count() + found.omitted(), 500);
        assert!(memory.has_failed() || found.omitted() == 0);
        each_is_woken_once(&domain, &words, &queued);
    });
    assert!(failures >= 2, "there is not room for all at once");
}

/// Queues one waiter on each word.
fn queue_each<'w, 'd>(domain: &'d Domain, words: &[AtomicU32], waiters: &'w mut [Boxed<'d>]) -> Vec<Queued<'w, 'd>> {
    std::iter::zip(words, waiters).map(|(word, waiter)| queue(domain, waiter, word)).collect()
}

fn each_is_woken_once(domain: &Domain, words: &[AtomicU32], queued: &[Queued<'_, '_>]) {
    for (word, queued) in std::iter::zip(words, queued) {
        assert!(!queued.is_woken());
        assert_eq!(domain.wake(word, usize::MAX), 1);
        assert!(queued.is_woken());
        assert_eq!(domain.wake(word, usize::MAX), 0);
    }
}

/// The first wait asks for memory for rare counters, for the store of tables (twice if need be), and for the table.
/// Without one of the last two the domain uses the global table.
fn first_wait_uses_the_global_table() {
    let slots = std::cell::RefCell::new(Vec::new());
    for_every_failure(|memory| {
        let domain = domain();
        let word = AtomicU32::new(0);
        let [mut first, mut second] = [(); 2].map(|()| Box::pin(Waiter::new()));
        let queued = memory.during(|| queue(&domain, &mut first, &word));
        slots.borrow_mut().push(domain.slots());
        assert_eq!(domain.table_bytes() == 0, domain.slots() == 0);
        assert_eq!(domain.wake(&word, 1), 1);
        assert!(queued.is_woken());
        let queued = queue(&domain, &mut second, &word);
        assert_eq!(domain.wake(&word, 1), 1);
        assert!(queued.is_woken());
    });
    // One failure, then all from there on.
    assert_eq!(slots.into_inner(), [[16, 0], [16, 0], [0, 0], [16, 16]].concat()[..7]);
}

/// If the table cannot be had, the domain gets the smallest one. If that cannot be had either, or the store of tables,
/// it uses the global table.
fn first_wait_without_memory_for_the_table_it_wants_has_the_smallest() {
    let slots = std::cell::RefCell::new(Vec::new());
    for_every_failure(|memory| {
        let options = DomainOptions::new().policy(Policy::Fixed(4096));
        let domain = Domain::with_options(&system(), options);
        let word = AtomicU32::new(0);
        let mut waiter = Box::pin(Waiter::new());
        let queued = memory.during(|| queue(&domain, &mut waiter, &word));
        assert_eq!(domain.wake(&word, 1), 1);
        assert!(queued.is_woken());
        slots.borrow_mut().push(domain.slots());
    });
    assert_eq!(slots.into_inner(), [[4096, 0], [4096, 0], [16, 0], [4096, 4096]].concat()[..7]);
}

/// The global table is made by the first wait that needs it. If there is no memory for it, a smaller one takes its
/// place for good, also when there is memory again.
fn words_in_the_global_table_need_no_memory() {
    let smaller = std::cell::Cell::new(0);
    let failures = for_every_failure(|memory| {
        let system = system();
        let wanted = system.global_slots();
        let [first, second] =
            [(); 2].map(|()| Domain::with_options(&system, DomainOptions::new().policy(Policy::Fixed(0))));
        let (early, late, mut waiters) = (words(50), words(50), idle(100));
        let (waiters, later_waiters) = waiters.split_at_mut(50);
        let mut queued = Vec::with_capacity(50);
        memory.during(|| {
            assert_eq!(first.wake(At::address_space(&early[0]), 1), 0, "nobody waits");
            for ((i, word), waiter) in std::iter::zip(early.iter().enumerate(), waiters) {
                queued.push(match i % 3 {
                    0 => queue(&first, waiter, At::address_space(word)),
                    1 => queue(&first, waiter, word),
                    _ => queue(&second, waiter, word),
                });
            }
        });
        // Without memory for the counters of a domain the tables are whole.
        assert!(memory.has_failed() || system.global_slots() == wanted);
        smaller.set(smaller.get() + usize::from(system.global_slots() < wanted));
        let later = queue_each(&second, &late, later_waiters);
        for ((i, word), queued) in std::iter::zip(early.iter().enumerate(), &queued) {
            let woken = match i % 3 {
                0 => first.wake(At::address_space(word), usize::MAX),
                1 => first.wake(word, usize::MAX),
                _ => second.wake(word, usize::MAX),
            };
            assert_eq!((woken, queued.is_woken()), (1, true));
        }
        each_is_woken_once(&second, &late, &later);
    });
    assert!(failures >= 5, "the table, the list of tables, its handle, and the counters of two domains");
    assert!(smaller.get() >= 2 * 3, "{}", smaller.get());
}

/// A wake without memory works in batches. It continues with the next batch after a waker has panicked.
fn wake_in_batches_continues_after_a_waker_that_panics() {
    let failures = for_every_failure(|memory| {
        let domain = domain();
        let word = AtomicU32::new(0);
        let panics = crate::common::waker::Calls::waker(|| {
            crate::allocator::stop();
            std::panic::resume_unwind(Box::new(()))
        });
        let mut waits: Vec<_> = (0..60).map(|_| Box::pin(domain.wait_async(&word, 0, &WaitOptions::new()))).collect();
        for (i, wait) in waits.iter_mut().enumerate() {
            let waker = if i % 7 == 3 { &panics } else { Waker::noop() };
            assert_eq!(wait.as_mut().poll(&mut Context::from_waker(waker)), Poll::Pending);
        }
        let woken =
            memory.during(|| std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| domain.wake(&word, usize::MAX))));
        assert!(woken.is_err());
        for wait in &mut waits {
            assert_eq!(wait.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(Ok(())));
        }
        assert_eq!(domain.waiting(), 0);
    });
    assert!(failures >= 1, "a wake of this many waiters allocates");
}

/// A `wake_op` without memory in which a waker of the first word panics. As without the panic, the waiters of the
/// second word are woken unless the first word's queue contains a waiter for a PI lock.
fn wake_op_in_batches_ends_as_it_would_without_a_panic() {
    for has_lock_waiter in [false, true] {
        let failures = for_every_failure(|memory| {
            let domain = domain();
            let ([first, second, lock], task) = ([const { AtomicU32::new(0) }; 3], domain.task(7).expect("it is free"));
            let panics = crate::common::waker::Calls::waker(|| {
                crate::allocator::stop();
                std::panic::resume_unwind(Box::new(()))
            });
            let mut waits = [&first, &second].map(|word| {
                let wait = |_| Box::pin(domain.wait_async(word, 0, &WaitOptions::new()));
                (0..30).map(wait).collect::<Vec<_>>()
            });
            for (i, wait) in waits.iter_mut().flatten().enumerate() {
                let waker = if i == 3 { &panics } else { Waker::noop() };
                assert_eq!(wait.as_mut().poll(&mut Context::from_waker(waker)), Poll::Pending);
            }
            let mut context = Context::from_waker(Waker::noop());
            let mut requeued = pin!(domain.wait_requeue_pi_async(&first, 0, &lock, &task, &WaitOptions::new()));
            if has_lock_waiter {
                assert_eq!(requeued.as_mut().poll(&mut context), Poll::Pending);
            }
            let op = WakeOp { modify: Modify::Add(1), compare: Compare::Eq(0) };
            let run = || domain.wake_op(&first, usize::MAX, &second, op, usize::MAX);
            assert!(memory.during(|| std::panic::catch_unwind(std::panic::AssertUnwindSafe(run))).is_err());
            let [of_first, of_second] = &mut waits;
            for wait in of_first {
                assert_eq!(wait.as_mut().poll(&mut context), Poll::Ready(Ok(())));
            }
            let expected = if has_lock_waiter { Poll::Pending } else { Poll::Ready(Ok(())) };
            for wait in of_second {
                assert_eq!(wait.as_mut().poll(&mut context), expected, "with a waiter of a lock: {has_lock_waiter}");
            }
        });
        assert!(failures >= 1, "a wake of this many waiters allocates");
    }
}

fn set_slots_without_memory_fails_and_changes_nothing() {
    for (before, after) in [(16, 64), (64, 16), (16, 2), (0, 32)] {
        let failures = for_every_failure(|memory| {
            let domain = domain();
            assert_eq!(domain.set_slots(before), Ok(()));
            let (words, mut waiters) = (words(50), idle(50));
            let queued = queue_each(&domain, &words, &mut waiters);
            let bytes = domain.table_bytes();
            match memory.during(|| domain.set_slots(after)) {
                Ok(()) => assert_eq!((memory.has_failed(), domain.slots()), (false, after)),
                Err(error) => {
                    assert_eq!((error, domain.slots(), domain.table_bytes()), (Error::NoMemory, before, bytes));
                }
            }
            each_is_woken_once(&domain, &words, &queued);
        });
        assert_eq!(failures, 1, "from {before} to {after}");
    }
}

fn set_slots_to_an_earlier_size_needs_no_memory() {
    let domain = domain();
    for slots in [64, 16, 0] {
        assert_eq!(domain.set_slots(slots), Ok(()));
    }
    let (words, mut waiters) = (words(50), idle(50));
    let queued = queue_each(&domain, &words, &mut waiters);
    for slots in [64, 0, 16, 64] {
        let failures = for_every_failure(|memory| assert_eq!(memory.during(|| domain.set_slots(slots)), Ok(())));
        assert_eq!((failures, domain.slots()), (0, slots));
    }
    each_is_woken_once(&domain, &words, &queued);
}

/// Only a `set_slots` that succeeds ends the automatic sizing.
fn set_slots_that_fails_leaves_the_policy_in_charge() {
    for_every_failure(|memory| {
        let system = System::with_config(SystemConfig::new().cpus(64).hash_seed(1)).expect("the memory is there");
        let domain = Domain::with_options(&system, DomainOptions::new().policy(Policy::Threads));
        assert!(queue(&domain, &mut Box::pin(Waiter::new()), &AtomicU32::new(0)).cancel());
        let result = memory.during(|| domain.set_slots(4));
        assert_eq!(result.err(), memory.has_failed().then_some(Error::NoMemory));
        domain.note_threads(8);
        assert_eq!(domain.slots(), if memory.has_failed() { 32 } else { 4 });
    });
}

fn threads_policy_that_fails_leaves_the_table_in_use() {
    let failures = for_every_failure(|memory| {
        let system = System::with_config(SystemConfig::new().cpus(64).hash_seed(1)).expect("the memory is there");
        let domain = Domain::with_options(&system, DomainOptions::new().policy(Policy::Threads));
        let (words, mut waiters) = (words(20), idle(20));
        let queued = queue_each(&domain, &words, &mut waiters);
        memory.during(|| domain.note_threads(8));
        assert_eq!(domain.slots(), if memory.has_failed() { 16 } else { 32 });
        each_is_woken_once(&domain, &words, &queued);
    });
    assert_eq!(failures, 1);
}

on_domains![
    pid_namespace_without_memory,
    counters_count_without_memory,
    who_waits_counts_the_words_that_it_omits_for_lack_of_memory,
    first_wait_uses_the_global_table,
    first_wait_without_memory_for_the_table_it_wants_has_the_smallest,
    words_in_the_global_table_need_no_memory,
    wake_in_batches_continues_after_a_waker_that_panics,
    wake_op_in_batches_ends_as_it_would_without_a_panic,
];
on_resizable_domains![
    set_slots_without_memory_fails_and_changes_nothing,
    set_slots_to_an_earlier_size_needs_no_memory,
    set_slots_that_fails_leaves_the_policy_in_charge,
    threads_policy_that_fails_leaves_the_table_in_use,
];

#[test]
#[cfg_attr(feature = "counted", ignore = "the scheme does not grow by load")]
fn growth_by_load_that_fails_leaves_the_table_in_use() {
    let failures = for_every_failure(|memory| {
        let domain = domain();
        let (words, mut waiters) = (words(400), idle(400));
        let queued: Vec<_> = std::iter::zip(&words, &mut waiters)
            .map(|(word, waiter)| memory.during(|| queue(&domain, waiter, word)))
            .collect();
        assert!(memory.has_failed() || domain.slots() > 16);
        each_is_woken_once(&domain, &words, &queued);
    });
    assert!(failures >= 2, "the first table and a larger one");
}
