//! Wakes that check whether waiters are left.

use std::sync::atomic::AtomicU32;

use ufutex::{At, Domain, Key, Target};

use crate::common::domains::{domain, on_domains};
use crate::common::waiters::{idle, queue, waiters_on};

/// Asserts how many are woken of `waiters` waiters of `word`, and whether more are left, by a wake of `count` and by one of
/// all others.
fn wakes<T: Target<Value = u32> + Key + Copy>(domain: &Domain, word: T, waiters: usize, count: usize) {
    let queued = waiters_on(domain, word, waiters);
    let woken = domain.wake_and_check(word, count);
    assert_eq!((woken.count, woken.has_more), (count.min(waiters), waiters > count), "{count} of {waiters}");
    let rest = domain.wake_and_check(word, usize::MAX);
    assert_eq!((rest.count, rest.has_more), (waiters.saturating_sub(count), false), "after {count} of {waiters}");
    assert!(queued.into_iter().all(|mut queued| !queued.cancel()));
}

/// Sixteen are taken without memory, 256 in one piece of a global table, which the second word is looked up in.
fn wake_says_whether_waiters_are_left() {
    let (domain, words) = (domain(), [AtomicU32::new(0), AtomicU32::new(0)]);
    const MOST: usize = if cfg!(miri) { 40 } else { 600 };
    for waiters in [0, 1, 2, 16, 17, 40, 256, 257, 300, 600].into_iter().filter(|&waiters| waiters <= MOST) {
        for count in [1, 2, 16, 17, 39, 255, 256, 257, 299, 512, 599, usize::MAX] {
            wakes(&domain, &words[0], waiters, count);
            wakes(&domain, At::address_space(&words[1]), waiters, count);
        }
    }
}

fn waiters_of_other_words_in_the_bucket_do_not_count() {
    let domain = domain();
    let words: [AtomicU32; 8] = Default::default();
    let nobody = domain.wake_and_check(&words[0], 1);
    // Without a table of its own the domain's words are in the global one, whose buckets they share too.
    for slots in [2, 0] {
        if domain.set_slots(slots).is_err() {
            return; // a table that is set once
        }
        let mut memory = idle(2 * words.len());
        let mut places = memory.iter_mut();
        let queued: Vec<_> =
            words.iter().map(|word| [(); 2].map(|()| queue(&domain, places.next().unwrap(), word))).collect();
        for word in &words {
            assert!(domain.wake_and_check(word, 1).has_more);
            assert!(!domain.wake_and_check(word, 1).has_more, "only waiters of other words are left");
            assert_eq!(domain.wake_and_check(word, 1), nobody, "whether or not it looks into the bucket");
        }
        assert!(queued.into_iter().flatten().all(|mut queued| !queued.cancel()));
    }
}

on_domains!(wake_says_whether_waiters_are_left, waiters_of_other_words_in_the_bucket_do_not_count);
