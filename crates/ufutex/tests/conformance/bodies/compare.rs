//! The comparison of the word with the expected value at the beginning of a wait.

use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::Duration;

use ufutex::Timeout;

use crate::common::asleep::until;
use crate::common::libc;
use crate::futex::{Futex, How, PLAINLY, word};
use crate::sleeper::{Sleeper, wait};

pub fn wait_compares_all_32_bits(futex: &Arc<dyn Futex>) {
    for bit in 0..32 {
        assert_eq!(wait(futex, word(1 << bit), 0, PLAINLY), Err(libc::EAGAIN), "bit {bit}");
        assert_eq!(wait(futex, word(1 << bit), 0, How::with_bitset(1)), Err(libc::EAGAIN), "bit {bit}");
        let at_once = How::within(Timeout::After(Duration::ZERO));
        assert_eq!(wait(futex, word(1 << bit), 1 << bit, at_once), Err(libc::ETIMEDOUT), "bit {bit}");
    }
}

pub fn wait_that_differs_is_eagain_even_after_its_timeout(futex: &Arc<dyn Futex>) {
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

/// Regression test for a defect of LiteBox ([peer-tables]): a wake was counted for a waiter that then returned EAGAIN,
/// and the sleeping waiter was not woken.
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

/// Regression test for a defect of Unikraft and wasmer ([peer-tables]): they compared the word without holding the
/// lock, so a wake between the comparison and the sleep was lost.
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
        // Delays the wake a little more in each round, so that it comes at each point before the sleep.
        (0..round % 64 * 16).for_each(|_| std::hint::spin_loop());
        word.store(round + 1, Release);
        futex.wake(word, 1);
        until("the waiter has seen the new value", || seen.load(Acquire) > round as usize);
    }
}
