//! Waiting only as long as the word holds what was expected.

use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::Duration;

use ufutex::Timeout;

use crate::common::asleep::until;
use crate::futex::{Futex, How, PLAINLY, word};
use crate::sleeper::{Sleeper, wait};

pub fn wait_returns_eagain_when_the_word_differs(futex: &Arc<dyn Futex>) {
    let word = word(7);
    assert_eq!(wait(futex, word, 8, PLAINLY), Err(libc::EAGAIN));
    assert_eq!(wait(futex, word, !7, How::with_bitset(1)), Err(libc::EAGAIN));
}

pub fn wait_compares_all_32_bits(futex: &Arc<dyn Futex>) {
    for bit in 0..32 {
        assert_eq!(wait(futex, word(1 << bit), 0, PLAINLY), Err(libc::EAGAIN), "bit {bit}");
        let at_once = How::within(Timeout::After(Duration::ZERO));
        assert_eq!(wait(futex, word(1 << bit), 1 << bit, at_once), Err(libc::ETIMEDOUT), "bit {bit}");
    }
}

pub fn wait_that_differs_ends_with_eagain_though_its_timeout_has_passed(futex: &Arc<dyn Futex>) {
    let at_once = How::within(Timeout::After(Duration::ZERO));
    assert_eq!(wait(futex, word(1), 0, at_once), Err(libc::EAGAIN));
}

pub fn wait_that_differs_leaves_no_entry_behind(futex: &Arc<dyn Futex>) {
    let word = word(1);
    for _ in 0..10 {
        assert_eq!(wait(futex, word, 0, PLAINLY), Err(libc::EAGAIN));
    }
    assert_eq!(futex.wake(word, usize::MAX), 0);
}

/// A defect of LiteBox ([peer-tables]): the wake is counted on a waiter that then reports "differs", and the sleeping
/// waiter is not woken.
pub fn wake_is_not_spent_on_a_waiter_that_reports_a_difference(futex: &Arc<dyn Futex>) {
    let word = word(0);
    let hammering = Arc::new(AtomicBool::new(true));
    let differs = {
        let (futex, hammering) = (futex.clone(), hammering.clone());
        std::thread::spawn(move || {
            while hammering.load(Acquire) {
                assert_eq!(futex.wait(word, 1, PLAINLY), Err(libc::EAGAIN));
            }
        })
    };
    for _ in 0..20 {
        let sleeper = Sleeper::new(futex, word, PLAINLY);
        assert_eq!(futex.wake(word, 1), 1);
        assert_eq!(sleeper.outcome(), Ok(()));
        assert_eq!(futex.wake(word, 1), 0);
    }
    hammering.store(false, Release);
    differs.join().expect("every wait of the other thread ended with EAGAIN");
}

/// A defect of Unikraft and wasmer ([peer-tables]): the word is compared outside the lock, so a wake can come between
/// the comparison and the sleep.
pub fn wake_between_compare_and_sleep_is_not_lost(futex: &Arc<dyn Futex>) {
    const ROUNDS: u32 = 300;
    let word = word(0);
    let seen = Arc::new(AtomicUsize::new(0));
    let waiter = {
        let (futex, seen) = (futex.clone(), seen.clone());
        move || {
            for round in 0..ROUNDS {
                while word.load(Acquire) == round {
                    let _ = futex.wait(word, round, PLAINLY);
                }
                seen.fetch_add(1, AcqRel);
            }
        }
    };
    std::thread::spawn(waiter);
    for round in 0..ROUNDS {
        // The moment of the wake moves over the whole of the waiter's way to sleep.
        (0..round % 64 * 16).for_each(|_| std::hint::spin_loop());
        word.store(round + 1, Release);
        futex.wake(word, 1);
        until("the waiter has seen the new value", || seen.load(Acquire) > round as usize);
    }
}
