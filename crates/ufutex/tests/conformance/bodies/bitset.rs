//! Wakes that select waiters by a bitset.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use crate::common::asleep::until;
use crate::futex::{Futex, How, word};
use crate::sleeper::{Order, Sleeper};

fn queue(futex: &Arc<dyn Futex>, word: &'static AtomicU32, bitsets: &[u32]) -> Order {
    let order = Order::default();
    for (number, &bitset) in bitsets.iter().enumerate() {
        let sleeper = Sleeper::start(futex, word, How::with_bitset(bitset), order.note(number));
        sleeper.until_asleep();
    }
    order
}

/// Waits until `expected.len()` waiters have been woken, and compares them with `expected` in any order.
fn were_woken(order: &Order, expected: &[usize]) {
    until("the waiters have noted their wakes", || order.seen().len() >= expected.len());
    let mut seen = order.seen();
    seen.sort_unstable();
    assert_eq!(seen, expected);
}

pub fn wake_bitset_takes_the_waiters_that_have_its_bit(futex: &Arc<dyn Futex>) {
    let word = word(0);
    let order = queue(futex, word, &[1, 2, 1, 4]);
    assert_eq!(futex.wake_bitset(word, usize::MAX, 1), 2);
    were_woken(&order, &[0, 2]);
    assert_eq!(futex.wake_bitset(word, usize::MAX, 1), 0);
    assert_eq!(futex.wake_bitset(word, usize::MAX, 4), 1);
    were_woken(&order, &[0, 2, 3]);
    assert_eq!(futex.wake_bitset(word, usize::MAX, 2), 1);
    were_woken(&order, &[0, 1, 2, 3]);
}

/// Regression test for a defect of DragonOS ([peer-tables]), which compared bitsets for equality.
pub fn one_common_bit_is_enough(futex: &Arc<dyn Futex>) {
    let word = word(0);
    let order = queue(futex, word, &[0b0110, 0b1000_0001]);
    assert_eq!(futex.wake_bitset(word, usize::MAX, 0b0001_1000), 0);
    assert_eq!(futex.wake_bitset(word, usize::MAX, 0b0011), 2);
    were_woken(&order, &[0, 1]);
    let order = queue(futex, word, &[1 << 31]);
    assert_eq!(futex.wake_bitset(word, usize::MAX, !(1 << 31)), 0);
    assert_eq!(futex.wake_bitset(word, usize::MAX, 1 << 31 | 1), 1);
    were_woken(&order, &[0]);
}

pub fn limit_counts_only_waiters_that_match(futex: &Arc<dyn Futex>) {
    let word = word(0);
    let order = queue(futex, word, &[2, 2, 1, 2, 1, 1]);
    assert_eq!(futex.wake_bitset(word, 2, 1), 2);
    were_woken(&order, &[2, 4]);
    assert_eq!(futex.wake_bitset(word, 2, 1), 1);
    were_woken(&order, &[2, 4, 5]);
    assert_eq!(futex.wake_bitset(word, 1, 2), 1);
    were_woken(&order, &[0, 2, 4, 5]);
    assert_eq!(futex.wake_bitset(word, usize::MAX, u32::MAX), 2);
}

pub fn plain_wake_takes_waiters_of_every_bitset(futex: &Arc<dyn Futex>) {
    let word = word(0);
    let order = queue(futex, word, &[1, 1 << 31, u32::MAX]);
    assert_eq!(futex.wake(word, usize::MAX), 3);
    were_woken(&order, &[0, 1, 2]);
}

pub fn waiter_that_was_passed_over_keeps_its_turn(futex: &Arc<dyn Futex>) {
    let word = word(0);
    let order = queue(futex, word, &[2, 1, 3]);
    assert_eq!(futex.wake_bitset(word, 1, 1), 1);
    were_woken(&order, &[1]);
    assert_eq!(futex.wake(word, 1), 1);
    were_woken(&order, &[0, 1]);
    assert_eq!(futex.wake(word, 1), 1);
    were_woken(&order, &[0, 1, 2]);
}
