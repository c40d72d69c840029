//! Limits on what a guest may use: waiters, slots, memory of tables.
//!
//! Promise: first table
//! Promise: table memory

use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Poll, Waker};
use std::time::Duration;

use ufutex::{
    At, Domain, DomainOptions, Error, ObjectId, Policy, Requeue, System, SystemConfig, Timeout, WaitOptions, Waiter,
};

use crate::common::domains::{on_domains, on_resizable_domains, system};
use crate::common::futures::{at_once, pending, poll};
use crate::common::waiters::{idle, queue, waiter_on, waiters_on};

const OBJECT: ObjectId = ObjectId::new(7).unwrap();

fn limited(waiters: usize) -> Domain {
    Domain::with_options(&system(), DomainOptions::new().max_waiters(waiters))
}

fn waiter_of_any_kind_beyond_the_limit_is_refused() {
    let domain = limited(2);
    let (word, other) = (AtomicU32::new(0), AtomicU32::new(0));
    let queued = waiters_on(&domain, &word, 2);
    assert_eq!(domain.waiting(), 2);
    assert_eq!(domain.wait(&other, 0), Err(Error::NoMemory));
    assert_eq!(domain.wait(At::address_space(&other), 0), Err(Error::NoMemory));
    let mut third = pin!(Waiter::new());
    assert_eq!(domain.prepare(third.as_mut(), &other, 0, &WaitOptions::new()).err(), Some(Error::NoMemory));
    assert_eq!(at_once(domain.wait_async(&other, 0, &WaitOptions::new())), Err(Error::NoMemory));
    assert_eq!((domain.counters().refused_waiters, domain.waiting()), (4, 2));
    // A wait that does not block is not refused.
    assert_eq!(domain.wait(&other, 1), Err(Error::Again));
    assert_eq!(domain.wake(&word, usize::MAX), 2);
    assert!(queued.iter().all(ufutex::Queued::is_woken));
}

fn room_comes_back_when_a_waiter_is_idle_again() {
    let domain = limited(1);
    let word = AtomicU32::new(0);
    let is_full = || domain.wait(&word, 0) == Err(Error::NoMemory);
    for round in 0..3 {
        let mut queued = waiter_on(&domain, &word);
        assert!(is_full());
        match round {
            0 => assert!(queued.cancel()),
            1 => drop(queued),
            _ => {
                assert_eq!(domain.wake(&word, 1), 1);
                assert!(is_full(), "woken, but still a waiter's memory");
                assert!(queued.is_woken() && queued.finish().is_ok());
            }
        }
        assert_eq!(domain.waiting(), 0);
    }
    assert_eq!(domain.counters().refused_waiters, 4);
}

/// Two domains share a word. Its waiter counts in the domain that waits, also when the other domain wakes it.
fn waiter_counts_in_its_own_domain() {
    let system = system();
    let [a, b] = [(); 2].map(|()| Domain::with_options(&system, DomainOptions::new().max_waiters(1)));
    let word = AtomicU32::new(0);
    let shared = || At::object(&word, OBJECT, 64);
    let (in_a, in_b) = (waiter_on(&a, shared()), waiter_on(&b, shared()));
    assert_eq!((a.waiting(), b.waiting()), (1, 1));
    assert_eq!(b.wake(shared(), 1), 1);
    assert!(in_a.is_woken() && in_a.finish().is_ok(), "it came first");
    assert_eq!((a.waiting(), b.waiting()), (0, 1));
    assert_eq!(a.wake(shared(), 1), 1);
    drop(in_b);
    assert_eq!((a.waiting(), b.waiting()), (0, 0));
}

fn wait_for_several_words_counts_each_of_them() {
    let domain = limited(3);
    let words = [(); 4].map(|()| AtomicU32::new(0));
    let pairs = |count| words[..count].iter().map(|word| (word, 0)).collect::<Vec<_>>();
    assert_eq!(at_once(domain.wait_any_async(pairs(4), &WaitOptions::new())), Err(Error::NoMemory));
    assert_eq!((domain.waiting(), domain.counters().refused_waiters), (0, 1));
    let mut three = pending(domain.wait_any_async(pairs(3), &WaitOptions::new()));
    assert_eq!(domain.waiting(), 3);
    assert_eq!(domain.wake(&words[1], 1), 1);
    assert_eq!(poll(&mut three), Poll::Ready(Ok(1)));
    assert_eq!(domain.waiting(), 0);
}

fn waiter_for_a_lock_counts_as_any_other() {
    let domain = limited(1);
    let (word, condition) = (AtomicU32::new(0), AtomicU32::new(0));
    let [owner, second, third] = [1, 2, 3].map(|tid| domain.task(tid).expect("the number is free"));
    assert_eq!(domain.try_lock_pi(&word, &owner), Ok(()));
    {
        let mut waits = pending(domain.lock_pi_async(&word, &second, &WaitOptions::new()));
        assert_eq!(domain.waiting(), 1);
        assert_eq!(at_once(domain.lock_pi_async(&word, &third, &WaitOptions::new())), Err(Error::NoMemory));
        assert_eq!(
            at_once(domain.wait_requeue_pi_async(&condition, 0, &word, &third, &WaitOptions::new())),
            Err(Error::NoMemory)
        );
        assert_eq!((domain.waiting(), domain.counters().refused_waiters), (1, 2));
        assert_eq!(domain.unlock_pi(&word, &owner), Ok(()));
        assert_eq!(poll(&mut waits), Poll::Ready(Ok(())));
    }
    assert_eq!(domain.waiting(), 0);
    {
        // A waiter that is refused is not in the graph.
        let queued = waiter_on(&domain, &condition);
        assert_eq!(at_once(domain.lock_pi_async(&word, &third, &WaitOptions::new())), Err(Error::NoMemory));
        drop(queued);
    }
    assert_eq!(domain.unlock_pi(&word, &second), Ok(()));
    assert_eq!(word.load(Ordering::SeqCst), 0);
    let mut given_up = pending(domain.wait_requeue_pi_async(&condition, 0, &word, &third, &WaitOptions::new()));
    assert_eq!(domain.waiting(), 1);
    given_up.set(domain.wait_requeue_pi_async(&condition, 0, &word, &third, &WaitOptions::new()));
    assert_eq!(domain.waiting(), 0);
}

fn waiters_that_move_still_count_once() {
    let domain = limited(20);
    let words = [(); 2].map(|()| AtomicU32::new(0));
    let queued = waiters_on(&domain, &words[0], 20);
    for slots in [64, 0, 4] {
        assert_eq!(domain.set_slots(slots), Ok(()));
    }
    assert_eq!(domain.requeue(&words[0], &words[1], Requeue { wake: 0, requeue: 12 }).map(|r| r.requeued), Ok(12));
    assert_eq!(domain.waiting(), 20);
    drop(queued);
    assert_eq!(domain.waiting(), 0);
}

fn guest_cannot_ask_for_more_slots_than_the_limit() {
    let system = System::with_config(SystemConfig::new().cpus(1).max_slots(64)).expect("the memory is there");
    let domain = Domain::with_options(&system, DomainOptions::new());
    assert_eq!(domain.prctl_futex_hash(1, 128, 0), -12);
    assert_eq!((domain.slots(), domain.counters().refused_slots), (0, 1));
    assert_eq!(domain.prctl_futex_hash(1, 64, 0), 0);
    assert_eq!((domain.slots(), domain.counters().refused_slots), (64, 1));
    assert_eq!(domain.prctl_futex_hash(1, 3, 0), -22);
    assert_eq!(domain.set_slots(128), Ok(()), "the embedder may");
    assert_eq!((domain.slots(), domain.counters().refused_slots), (128, 1));
}

/// The size in bytes of a table with `slots` slots.
fn bytes(slots: usize) -> usize {
    let domain = Domain::with_options(&system(), DomainOptions::new());
    assert_eq!(domain.set_slots(slots), Ok(()));
    domain.table_bytes()
}

fn domain_takes_no_more_memory_for_tables_than_its_limit() {
    let limit = bytes(64) + bytes(4);
    let system =
        System::with_config(SystemConfig::new().cpus(1).max_domain_table_bytes(0)).expect("the memory is there");
    let domain = Domain::with_options(&system, DomainOptions::new().max_table_bytes(limit));
    assert_eq!(domain.set_slots(64), Ok(()));
    assert_eq!(domain.set_slots(8), Err(Error::NoMemory));
    assert_eq!(domain.prctl_futex_hash(1, 8, 0), -12);
    assert_eq!((domain.slots(), domain.counters().refused_tables), (64, 2));
    assert_eq!((domain.set_slots(4), domain.set_slots(64)), (Ok(()), Ok(())), "what there was is still there");
    assert_eq!((domain.table_bytes(), system.table_bytes()), (limit, limit));
    drop(domain);
    assert_eq!(system.table_bytes(), 0, "a domain's tables go with it");
    // This domain may have no table, and waits in the global table.
    let domain = Domain::with_options(&system, DomainOptions::new());
    let word = AtomicU32::new(0);
    let queued = waiter_on(&domain, &word);
    assert_eq!((domain.slots(), domain.table_bytes(), domain.counters().refused_tables), (0, 0, 1));
    assert_eq!(domain.wake(&word, 1), 1);
    assert!(queued.is_woken() && queued.finish().is_ok());
}

fn domains_share_the_systems_table_memory() {
    let table = bytes(64);
    let system =
        System::with_config(SystemConfig::new().cpus(1).max_table_bytes(2 * table)).expect("the memory is there");
    let domains = [(); 3].map(|()| Domain::with_options(&system, DomainOptions::new()));
    assert_eq!(domains.each_ref().map(|domain| domain.set_slots(64)), [Ok(()), Ok(()), Err(Error::NoMemory)]);
    assert_eq!(domains.each_ref().map(|domain| domain.counters().refused_tables), [0, 0, 1]);
    assert_eq!(system.table_bytes(), 2 * table);
    let [first, second, third] = domains;
    drop(first);
    assert_eq!(system.table_bytes(), table, "a domain's tables go with it");
    assert_eq!((third.set_slots(64), second.slots()), (Ok(()), 64));
}

/// A system whose memory for tables is all taken, and the domain that has taken it.
fn system_without_table_memory(neighbour_slots: usize, config: SystemConfig) -> (System, Domain) {
    let table = bytes(neighbour_slots);
    let smallest = bytes(SMALLEST);
    let config = config.cpus(64).max_table_bytes(table - smallest);
    let system = System::with_config(config).expect("the memory is there");
    let neighbour = Domain::with_options(&system, DomainOptions::new());
    assert_eq!(neighbour.set_slots(neighbour_slots), Ok(()));
    (system, neighbour)
}

/// The slots of the smallest table that a policy makes.
const SMALLEST: usize = 16;
/// The bytes of a bucket.
const BUCKET: usize = if cfg!(feature = "split") { 128 } else { 64 };

fn each_domain_gets_a_table_although_a_neighbour_has_taken_all_table_memory() {
    for (policy, slots, refused) in [
        (Policy::Load, SMALLEST, 1), // The configuration's first size is 64 slots.
        (Policy::Fixed(4096), SMALLEST, 1),
        (Policy::Fixed(SMALLEST), SMALLEST, 0),
        (Policy::Fixed(2), 2, 0),
    ] {
        let (system, neighbour) = system_without_table_memory(256, SystemConfig::new().default_slots(64));
        let before = system.table_bytes();
        let domain = Domain::with_options(&system, DomainOptions::new().policy(policy));
        let word = AtomicU32::new(0);
        let mut waiters = idle(1);
        let queued = queue(&domain, &mut waiters[0], &word);
        assert_eq!((domain.slots(), domain.counters().refused_tables), (slots, refused), "{policy:?}");
        assert_eq!((domain.wake(&word, 1), queued.is_woken()), (1, true));
        assert_eq!(queued.finish(), Ok(()));
        assert_eq!(system.table_bytes(), before + domain.table_bytes());
        drop(waiters);
        drop(domain);
        assert_eq!(system.table_bytes(), before, "a domain's tables go with it");
        drop(neighbour);
        assert_eq!(system.table_bytes(), 0);
    }
}

/// For more threads the policy makes a larger table, as soon as the system has memory for it.
fn table_that_was_refused_for_threads_grows_when_there_is_memory() {
    let (system, neighbour) = system_without_table_memory(256, SystemConfig::new());
    let domain = Domain::with_options(&system, DomainOptions::new().policy(Policy::Threads));
    domain.note_threads(32);
    let word = AtomicU32::new(0);
    assert_eq!(domain.wait_with(&word, 0, &without_time()), Err(Error::TimedOut));
    assert_eq!(domain.slots(), SMALLEST);
    domain.note_threads(32);
    assert_eq!(domain.slots(), SMALLEST);
    drop(neighbour);
    domain.note_threads(32);
    assert_eq!(domain.slots(), 128);
}

/// A domain may always have the memory of one smallest table. That holds for all of its tables together, not for each.
fn growth_beyond_the_smallest_table_counts() {
    let (system, neighbour) = system_without_table_memory(64, SystemConfig::new());
    let domain = Domain::with_options(&system, DomainOptions::new());
    assert_eq!([2, 4, 8].map(|slots| domain.set_slots(slots)), [Ok(()); 3], "14 slots of 16");
    assert_eq!(domain.set_slots(SMALLEST), Err(Error::NoMemory));
    assert_eq!([0, 8, 0, 2].map(|slots| domain.set_slots(slots)), [Ok(()); 4], "what there was is still there");
    assert_eq!(domain.set_slots(32), Err(Error::NoMemory));
    assert_eq!((domain.slots(), domain.counters().refused_tables), (2, 2));
    drop(neighbour);
    assert_eq!(system.table_bytes(), domain.table_bytes());
    assert_eq!((domain.set_slots(SMALLEST), domain.set_slots(32)), (Ok(()), Ok(())));
    assert_eq!(system.table_bytes(), domain.table_bytes());
    // The domain gives back what it took: the neighbour's tables fit again, and nothing more.
    drop(domain);
    assert_eq!(system.table_bytes(), 0);
    let [first, second] = [(); 2].map(|()| Domain::with_options(&system, DomainOptions::new()));
    assert_eq!((first.set_slots(64), second.set_slots(32)), (Ok(()), Err(Error::NoMemory)));
}

fn system_without_table_memory_leaves_each_domain_its_smallest_table() {
    let system = System::with_config(SystemConfig::new().cpus(1).max_table_bytes(0)).expect("the memory is there");
    let word = AtomicU32::new(0);
    let domains = [(); 20].map(|()| Domain::with_options(&system, DomainOptions::new()));
    for domain in &domains {
        assert_eq!(domain.wait_with(&word, 0, &without_time()), Err(Error::TimedOut));
        assert_eq!((domain.slots(), domain.counters().refused_tables), (SMALLEST, 0));
    }
    assert_eq!(system.table_bytes(), 20 * domains[0].table_bytes());
    // The domain's own limit applies to its smallest table as well.
    let none = Domain::with_options(&system, DomainOptions::new().max_table_bytes(domains[0].table_bytes() - 1));
    assert_eq!(none.wait_with(&word, 0, &without_time()), Err(Error::TimedOut));
    assert_eq!((none.slots(), none.table_bytes(), none.counters().refused_tables), (0, 0, 1));
    // A domain whose policy is the global table still uses it.
    let global = Domain::with_options(&system, DomainOptions::new().policy(Policy::Fixed(0)));
    assert_eq!(global.wait_with(&word, 0, &without_time()), Err(Error::TimedOut));
    assert_eq!((global.slots(), global.counters().refused_tables), (0, 0));
}

/// Options of a wait that times out at once.
fn without_time() -> WaitOptions {
    WaitOptions::new().timeout(Timeout::After(Duration::ZERO))
}

on_domains![
    each_domain_gets_a_table_although_a_neighbour_has_taken_all_table_memory,
    system_without_table_memory_leaves_each_domain_its_smallest_table,
    waiter_of_any_kind_beyond_the_limit_is_refused,
    room_comes_back_when_a_waiter_is_idle_again,
    waiter_counts_in_its_own_domain,
    wait_for_several_words_counts_each_of_them,
    waiter_for_a_lock_counts_as_any_other,
];
on_resizable_domains![
    waiters_that_move_still_count_once,
    guest_cannot_ask_for_more_slots_than_the_limit,
    domain_takes_no_more_memory_for_tables_than_its_limit,
    domains_share_the_systems_table_memory,
    table_that_was_refused_for_threads_grows_when_there_is_memory,
    growth_beyond_the_smallest_table_counts,
];

#[test]
fn threads_that_come_and_go_at_the_limit_never_exceed_it() {
    let domain = limited(2);
    let word = AtomicU32::new(0);
    let refused: u64 = std::thread::scope(|scope| {
        let workers = [(); 4].map(|()| {
            scope.spawn(|| {
                let mut refused = 0;
                for _ in 0..5000 {
                    let mut waiter = pin!(Waiter::new());
                    let waker = Waker::noop().clone();
                    match domain.prepare_with(waiter.as_mut(), &word, 0, &WaitOptions::new(), waker) {
                        Ok(mut queued) => {
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

#[test]
#[cfg_attr(feature = "fixed", ignore = "the table is set once")]
fn short_lived_domains_stay_within_the_systems_table_memory() {
    const THREADS: usize = 8;
    let largest = BUCKET * 256;
    let limited = 2 * largest;
    let system =
        System::with_config(SystemConfig::new().cpus(2).max_table_bytes(limited)).expect("the memory is there");
    // Each thread's domain may have its smallest table on top of the limit.
    let limit = limited + THREADS * BUCKET * SMALLEST;
    let is_done = std::sync::atomic::AtomicBool::new(false);
    let [made, refused]: [u64; 2] = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                assert!(system.table_bytes() <= limit);
                std::thread::yield_now();
            }
        });
        let workers = [(); THREADS].map(|()| {
            scope.spawn(|| {
                let [mut made, mut refused] = [0, 0];
                for round in 0..200 {
                    let domain = Domain::new(&system);
                    for slots in [256, 0, 64, 256 >> (round % 4), 128] {
                        match domain.set_slots(slots) {
                            Ok(()) => made += 1,
                            Err(error) => {
                                assert_eq!(error, Error::NoMemory);
                                refused += 1;
                            }
                        }
                        assert!(domain.table_bytes() <= system.table_bytes() && system.table_bytes() <= limit);
                    }
                    assert!(domain.counters().refused_tables <= 5);
                }
                [made, refused]
            })
        });
        let sums = workers.map(|worker| worker.join().expect("it holds"));
        is_done.store(true, Ordering::Relaxed);
        watcher.join().expect("the limit holds");
        sums.iter().fold([0; 2], |[made, refused], [m, r]| [made + m, refused + r])
    });
    assert_eq!(system.table_bytes(), 0);
    assert!(made > 0 && made + refused == (THREADS * 200 * 5) as u64);
}

/// A topology that panics when the engine asks for the current node, which happens before a table is allocated.
struct Unknown(AtomicU32);

impl ufutex::platform::Topology for Unknown {
    fn nodes(&self) -> usize {
        1
    }

    fn current_node(&self) -> u32 {
        assert_eq!(self.0.load(Ordering::Relaxed), 0, "the node is unknown");
        0
    }
}

#[test]
fn table_that_was_not_made_because_of_a_panic_takes_no_memory_of_the_system() {
    let unknown = std::sync::Arc::new(Unknown(AtomicU32::new(0)));
    let system = System::with_config(SystemConfig::new().topology(unknown.clone())).expect("one node");
    let domain = Domain::with_options(&system, DomainOptions::new());
    unknown.0.store(1, Ordering::Relaxed);
    let attempt = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| domain.set_slots(1024)));
    assert!(attempt.is_err());
    assert_eq!(system.table_bytes(), 0);
    unknown.0.store(0, Ordering::Relaxed);
    assert_eq!(domain.set_slots(1024), Ok(()));
    assert_eq!(system.table_bytes(), BUCKET * 1024);
}
