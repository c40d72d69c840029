//! A resize keeps every waiter: up, down, to the global table and back.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

use ufutex::{Domain, DomainOptions, Error, Queued, Timeout, WaitOptions, Waiter};

use crate::common::domains::{on_resizable_domains, system};
use crate::common::waiters::waiters_on;

const WORDS: usize = 100;
const EACH: usize = 3;

/// The table sizes through which the waiters are moved. `0` is the global table, which has 64 slots in this test.
const SIZES: [usize; 14] = [16, 1024, 2, 0, 512, 0, 2, 64, 0, 64, 32, 4096, 16, 8];

fn words() -> Vec<AtomicU32> {
    (0..WORDS).map(|_| AtomicU32::new(0)).collect()
}

/// Queues `EACH` waiters on each word.
fn queue_all<'d>(domain: &'d Domain, words: &[AtomicU32]) -> Vec<Vec<Queued<'d, 'd>>> {
    words.iter().map(|word| waiters_on(domain, word, EACH)).collect()
}

fn woken(queued: &[Queued<'_, '_>]) -> Vec<bool> {
    queued.iter().map(Queued::is_woken).collect()
}

/// Wakes all waiters one by one, and checks that each word has exactly its own waiters in order.
fn wake_all_one_by_one(domain: &Domain, words: &[AtomicU32], queued: &[Vec<Queued<'_, '_>>]) {
    for (word, queued) in std::iter::zip(words, queued) {
        for count in 1..=EACH {
            assert_eq!(domain.wake(word, 1), 1);
            assert_eq!(woken(queued), (0..EACH).map(|i| i < count).collect::<Vec<_>>());
        }
        assert_eq!(domain.wake(word, usize::MAX), 0);
    }
}

fn no_waiter_is_lost_or_loses_its_turn() {
    let domain = Domain::with_options(&system(), DomainOptions::new());
    for pair in SIZES.windows(2) {
        let [before, after] = *pair else { unreachable!() };
        assert_eq!(domain.set_slots(before), Ok(()));
        let words = words();
        let queued = queue_all(&domain, &words);
        assert_eq!(domain.set_slots(after), Ok(()));
        wake_all_one_by_one(&domain, &words, &queued);
    }
}

fn waiters_survive_many_resizes() {
    let domain = Domain::with_options(&system(), DomainOptions::new());
    let words = words();
    let queued = queue_all(&domain, &words);
    for slots in SIZES {
        assert_eq!(domain.set_slots(slots), Ok(()));
        assert_eq!(domain.slots(), slots);
    }
    wake_all_one_by_one(&domain, &words, &queued);
}

/// Regression test for a defect of Asterinas and Occlum ([peer-tables]): a waiter that had been moved searched for
/// itself in its original bucket.
fn waiter_that_gives_up_leaves_the_bucket_that_it_was_moved_to() {
    let domain = Domain::with_options(&system(), DomainOptions::new());
    for slots in SIZES {
        let words = words();
        let mut queued = queue_all(&domain, &words);
        assert_eq!(domain.set_slots(slots), Ok(()));
        for queued in &mut queued {
            assert!(queued.remove(1).cancel(), "one from the middle");
        }
        for (word, queued) in std::iter::zip(&words, &queued) {
            assert_eq!(domain.wake(word, usize::MAX), EACH - 1);
            assert!(queued.iter().all(Queued::is_woken));
        }
    }
}

fn thread_that_times_out_after_a_resize_leaves_no_entry_behind() {
    let domain = Domain::with_options(&system(), DomainOptions::new());
    let options = WaitOptions::new().timeout(Timeout::After(Duration::from_millis(2)));
    for slots in SIZES {
        let word = AtomicU32::new(0);
        let mut waiter = Box::pin(Waiter::new());
        let queued = domain.prepare(waiter.as_mut(), &word, 0, &options).expect("the word is 0");
        assert_eq!(domain.set_slots(slots), Ok(()));
        assert_eq!(queued.finish(), Err(Error::TimedOut));
        assert_eq!(domain.wake(&word, usize::MAX), 0);
    }
}

/// Two domains use the global table. When one leaves it, it moves only its own waiters.
fn waiters_in_the_global_table_stay_when_another_domain_leaves_it() {
    let system = system();
    let [a, b] = [(); 2].map(|()| Domain::with_options(&system, DomainOptions::new()));
    assert_eq!((a.set_slots(0), b.set_slots(0)), (Ok(()), Ok(())));
    let words = words();
    let queued_a = queue_all(&a, &words);
    let queued_b = queue_all(&b, &words);
    assert_eq!(a.set_slots(512), Ok(()));
    wake_all_one_by_one(&a, &words, &queued_a);
    assert!(queued_b.iter().flatten().all(|q| !q.is_woken()));
    assert_eq!(b.set_slots(16), Ok(()));
    wake_all_one_by_one(&b, &words, &queued_b);
}

on_resizable_domains![
    no_waiter_is_lost_or_loses_its_turn,
    waiters_survive_many_resizes,
    waiter_that_gives_up_leaves_the_bucket_that_it_was_moved_to,
    thread_that_times_out_after_a_resize_leaves_no_entry_behind,
    waiters_in_the_global_table_stay_when_another_domain_leaves_it,
];
