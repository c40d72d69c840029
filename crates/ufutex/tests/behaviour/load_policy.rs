//! The size policy `Load`: a table grows if it has many keys per bucket, and for no other reason.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use ufutex::{Domain, DomainOptions, Error, Policy, System, SystemConfig};

use crate::common::domains::domain;
use crate::common::waiters::{idle, queue};

/// A word in a cache line of its own, so that its bucket does not depend on other words.
#[repr(align(64))]
struct Line(AtomicU32);

fn lines(count: usize) -> Vec<Line> {
    (0..count).map(|_| Line(AtomicU32::new(0))).collect()
}

/// Queues one waiter on each of `count` words, and wakes all. Returns the number of slots while all were queued.
fn slots_with_waiters_on_distinct_words(domain: &Domain, count: usize) -> usize {
    let (lines, mut waiters) = (lines(count), idle(count));
    let queued: Vec<_> =
        std::iter::zip(&lines, &mut waiters).map(|(line, waiter)| queue(domain, waiter, &line.0)).collect();
    let slots = domain.slots();
    for (line, queued) in std::iter::zip(&lines, &queued) {
        assert_eq!(domain.wake(&line.0, usize::MAX), 1);
        assert!(queued.is_woken());
    }
    slots
}

#[test]
#[cfg_attr(feature = "counted", ignore = "the scheme does not grow by load")]
fn many_waiters_on_distinct_words_grow_the_table() {
    for count in [200, 2_000, 20_000] {
        let slots = slots_with_waiters_on_distinct_words(&domain(), count);
        assert!(slots >= count / 8, "{slots} slots for {count} waiters");
        assert!(slots <= count * 8, "{slots} slots for {count} waiters");
    }
}

#[test]
#[cfg_attr(feature = "counted", ignore = "the scheme does not grow by load")]
fn few_waiters_need_no_more_than_the_first_table() {
    assert_eq!(slots_with_waiters_on_distinct_words(&domain(), 4), 16);
}

#[test]
#[cfg_attr(feature = "counted", ignore = "the scheme does not grow by load")]
fn many_waiters_on_one_word_do_not_grow_the_table() {
    let domain = domain();
    let (word, mut waiters) = (AtomicU32::new(0), idle(5_000));
    let queued: Vec<_> = waiters.iter_mut().map(|waiter| queue(&domain, waiter, &word)).collect();
    assert_eq!(domain.slots(), 16);
    assert_eq!(domain.wake(&word, usize::MAX), 5_000);
    assert!(queued.iter().all(ufutex::Queued::is_woken));
}

#[test]
#[cfg_attr(feature = "counted", ignore = "the scheme does not grow by load")]
fn many_waiters_on_the_words_of_one_cache_line_do_not_grow_the_table() {
    #[repr(align(64))]
    struct Full([AtomicU32; 16]);
    let domain = domain();
    let (line, mut waiters) = (Full([const { AtomicU32::new(0) }; 16]), idle(1_600));
    let queued: Vec<_> =
        waiters.iter_mut().enumerate().map(|(i, waiter)| queue(&domain, waiter, &line.0[i % 16])).collect();
    assert_eq!(domain.slots(), 16);
    assert_eq!(line.0.iter().map(|word| domain.wake(word, usize::MAX)).sum::<usize>(), queued.len());
}

#[test]
#[cfg_attr(feature = "counted", ignore = "the scheme does not grow by load")]
fn growth_stops_at_the_configured_maximum() {
    let config = SystemConfig::new().cpus(2).hash_seed(1).max_slots(64);
    let system = System::with_config(config).expect("the memory is there");
    let domain = Domain::with_options(&system, DomainOptions::new());
    assert_eq!(slots_with_waiters_on_distinct_words(&domain, 2_000), 64);
}

#[test]
#[cfg_attr(feature = "counted", ignore = "the scheme does not grow by load")]
fn growth_ends_when_a_size_is_set_or_the_table_is_immutable() {
    let set = domain();
    assert_eq!(set.set_slots(4), Ok(()));
    assert_eq!(slots_with_waiters_on_distinct_words(&set, 500), 4);
    let immutable = domain();
    immutable.set_immutable();
    assert_eq!(slots_with_waiters_on_distinct_words(&immutable, 500), 16);
}

#[test]
fn only_the_policy_load_grows_by_load() {
    for (policy, slots) in [(Policy::Threads, 16), (Policy::Fixed(32), 32), (Policy::Fixed(0), 0)] {
        let system = System::with_config(SystemConfig::new().cpus(2).hash_seed(1)).expect("the memory is there");
        let domain = Domain::with_options(&system, DomainOptions::new().policy(policy));
        assert_eq!(slots_with_waiters_on_distinct_words(&domain, 500), slots, "{policy:?}");
    }
}

#[cfg(feature = "counted")]
#[test]
fn schemes_that_would_have_to_wait_do_not_grow_by_load() {
    assert_eq!(slots_with_waiters_on_distinct_words(&domain(), 500), 16);
}

/// Two threads call `wait` on `words`, which differ from the expected value, until `until` is true or 300 ms have
/// passed.
fn contend(domain: &Domain, words: [&AtomicU32; 2], until: impl Fn() -> bool) {
    let (running, begin) = (AtomicBool::new(true), Instant::now());
    std::thread::scope(|scope| {
        for word in words {
            let running = &running;
            scope.spawn(move || {
                while running.load(Ordering::Relaxed) {
                    assert_eq!(domain.wait(word, 1), Err(Error::Again));
                }
            });
        }
        while begin.elapsed() < Duration::from_millis(300) && !until() {
            std::thread::sleep(Duration::from_millis(1));
        }
        running.store(false, Ordering::Relaxed);
    });
}

/// A domain with a table of the smallest size, where every wait locks its bucket.
fn contended_domain() -> Domain {
    let config = SystemConfig::new().cpus(2).hash_seed(1).default_slots(2);
    let system = System::with_config(config).expect("the memory is there");
    let domain = Domain::with_options(&system, DomainOptions::new().early_return(false));
    assert_eq!(domain.wait(&AtomicU32::new(0), 1), Err(Error::Again));
    domain
}

#[test]
fn contention_on_one_word_does_not_grow_the_table() {
    let (domain, word) = (contended_domain(), AtomicU32::new(0));
    contend(&domain, [&word; 2], || domain.slots() != 2);
    assert_eq!(domain.slots(), 2);
}
