//! Which waiters a wake takes, and how many.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use crate::futex::{Futex, PLAINLY, Sharing, word};
use crate::sleeper::Sleeper;

fn sleepers(futex: &Arc<dyn Futex>, word: &'static AtomicU32, count: usize) -> Vec<Sleeper> {
    let sleepers: Vec<_> = (0..count).map(|_| Sleeper::start(futex, word, PLAINLY, || {})).collect();
    sleepers.iter().for_each(Sleeper::until_asleep);
    sleepers
}

fn all_were_woken(sleepers: Vec<Sleeper>) {
    for sleeper in sleepers {
        assert_eq!(sleeper.outcome(), Ok(()));
    }
}

pub fn wake_returns_0_without_waiters(futex: &Arc<dyn Futex>) {
    let word = word(0);
    assert_eq!(futex.wake(word, 1), 0);
    assert_eq!(futex.wake(word, usize::MAX), 0);
    let sleeper = Sleeper::new(futex, word, PLAINLY);
    assert_eq!(futex.wake(word, 1), 1);
    assert_eq!(sleeper.outcome(), Ok(()));
    assert_eq!(futex.wake(word, usize::MAX), 0);
}

pub fn wake_takes_as_many_as_it_was_asked_to(futex: &Arc<dyn Futex>) {
    let word = word(0);
    let sleepers = sleepers(futex, word, 6);
    assert_eq!(futex.wake(word, 1), 1);
    assert_eq!(futex.wake(word, 3), 3);
    assert_eq!(futex.wake(word, 1), 1);
    assert_eq!(futex.wake(word, 1), 1);
    assert_eq!(futex.wake(word, 1), 0);
    all_were_woken(sleepers);
}

pub fn wake_of_150_waiters_at_once_wakes_them_all(futex: &Arc<dyn Futex>) {
    let word = word(0);
    let sleepers = sleepers(futex, word, 150);
    assert_eq!(futex.wake(word, usize::MAX), 150);
    all_were_woken(sleepers);
    assert_eq!(futex.wake(word, usize::MAX), 0);
}

/// Regression test for a defect of WAMR ([peer-tables]): the second wake found the first waiter still queued, and the
/// second waiter was not woken.
pub fn two_quick_wakes_release_two_waiters(futex: &Arc<dyn Futex>) {
    for _ in 0..10 {
        let word = word(0);
        let sleepers = sleepers(futex, word, 2);
        let (first, second) = (futex.wake(word, 1), futex.wake(word, 1));
        assert_eq!((first, second), (1, 1));
        all_were_woken(sleepers);
    }
}

pub fn words_in_one_cache_line_do_not_mix(futex: &Arc<dyn Futex>) {
    #[repr(align(64))]
    struct Line([AtomicU32; 16]);
    let line: &'static Line = Box::leak(Box::new(Line([const { AtomicU32::new(0) }; 16])));
    for_each_word_its_own_waiters(futex, &line.0);
}

pub fn words_in_one_bucket_do_not_mix(futex: &Arc<dyn Futex>) {
    // There are more words than a new table has buckets, so some words share a bucket.
    #[repr(align(4096))]
    struct Pages([[AtomicU32; 16]; 40]);
    let pages: &'static Pages = Box::leak(Box::new(Pages([const { [const { AtomicU32::new(0) }; 16] }; 40])));
    let firsts: Vec<&'static AtomicU32> = pages.0.iter().map(|line| &line[0]).collect();
    for_each_word_its_own_waiters(futex, firsts);
}

/// Queues two waiters on the first word and one on each other word. A wake must take the waiters of its word only.
fn for_each_word_its_own_waiters(futex: &Arc<dyn Futex>, words: impl IntoIterator<Item = &'static AtomicU32>) {
    let mut waiting: Vec<_> = words.into_iter().map(|word| (word, sleepers(futex, word, 1))).collect();
    let first = waiting[0].0;
    waiting[0].1.extend(sleepers(futex, first, 1));
    for (word, sleepers) in waiting.into_iter().rev() {
        assert_eq!(futex.wake(word, usize::MAX), sleepers.len());
        assert_eq!(futex.wake(word, usize::MAX), 0);
        all_were_woken(sleepers);
    }
}

pub fn private_and_shared_operations_on_one_address_use_different_keys(futex: &Arc<dyn Futex>) {
    let word = word(0);
    let (own, other) = match futex.sharing() {
        Sharing::Private => (Sharing::Private, Sharing::Shared),
        Sharing::Shared => (Sharing::Shared, Sharing::Private),
    };
    let sleeper = Sleeper::new(futex, word, PLAINLY);
    assert_eq!(futex.wake_as(other, word, usize::MAX, u32::MAX), 0);
    assert!(sleeper.is_asleep());
    assert_eq!(futex.wake_as(own, word, usize::MAX, u32::MAX), 1);
    assert_eq!(sleeper.outcome(), Ok(()));
}
