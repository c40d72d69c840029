//! `FUTEX_WAKE` and `FUTEX_WAKE_BITSET`.

use crate::calls::{ALL, ANY, WAITERS, begin_all};
use crate::common::errno::EINVAL;
use crate::machine::{Machine, Thread};
use crate::memory::Word;
use crate::on_every_machine;

fn wake_takes_the_first_waiters_and_returns_their_number(m: &Machine) {
    let (waker, word) = (m.thread(), m.word(0));
    assert_eq!(waker.call(m.wake(word, ALL)), 0);
    let threads: [Thread; 6] = m.threads();
    let mut waiting = begin_all(&threads, |_| m.wait(word, 0)).into_iter();
    for (count, woken) in [(1, 1), (3, 3), (1, 1), (100, 1), (ALL, 0)] {
        assert_eq!(waker.call(m.wake(word, count)), woken);
        waiting.by_ref().take(woken as usize).for_each(|waiting| assert_eq!(waiting.finish(), 0));
    }
}

fn wake_of_150_waiters_at_once_wakes_them_all(m: &Machine) {
    let (waker, word) = (m.thread(), m.word(0));
    let threads: [Thread; 150] = m.threads();
    let waiting = begin_all(&threads, |_| m.wait(word, 0));
    assert_eq!(waker.call(m.wake(word, ALL)), 150);
    waiting.into_iter().for_each(|waiting| assert_eq!(waiting.finish(), 0));
    assert_eq!(waker.call(m.wake(word, ALL)), 0);
}

/// The words of one cache line are in one bucket of the engine. The others are more than a new table has buckets.
fn words_in_one_bucket_do_not_mix(m: &Machine) {
    let (waker, line) = (m.thread(), m.word(0));
    let words: Vec<_> = (0..16).map(|i| Word(line.0 + 4 * i)).chain(m.words::<40>(0)).collect();
    let threads: [Thread; 56] = m.threads();
    let waiting = begin_all(&threads, |i| m.wait(words[i], 0));
    for (word, waiting) in std::iter::zip(words, waiting).rev() {
        assert_eq!([waker.call(m.wake(word, ALL)), waker.call(m.wake(word, ALL))], [1, 0]);
        assert_eq!(waiting.finish(), 0);
    }
}

fn count_of_0_or_less_wakes_one(m: &Machine) {
    let (waker, word) = (m.thread(), m.word(0));
    let threads: [Thread; 4] = m.threads();
    let waiting = begin_all(&threads, |_| m.wait(word, 0));
    for (waiting, count) in std::iter::zip(waiting, [0, -1, i32::MIN, -1000]) {
        assert_eq!(waker.call(m.wake(word, count)), 1, "{count}");
        assert_eq!(waiting.finish(), 0);
    }
    assert_eq!(waker.call(m.wake(word, 0)), 0);
}

fn count_of_0_wakes_one_that_matches_the_bitset(m: &Machine) {
    let ([a, b, waker], word) = (m.threads(), m.word(0));
    let first = a.begin(m.wait_bitset(word, 0, 1));
    let second = b.begin(m.wait_bitset(word, 0, 2));
    assert_eq!(waker.call(m.wake_bitset(word, 0, 2)), 1);
    assert_eq!(second.finish(), 0);
    first.stays_asleep();
    assert_eq!(waker.call(m.wake(word, 1)), 1);
    assert_eq!(first.finish(), 0);
}

fn wake_bitset_takes_the_first_that_match_and_the_others_keep_their_turn(m: &Machine) {
    let (waker, word) = (m.thread(), m.word(0));
    let threads: [Thread; 6] = m.threads();
    let bitsets = [2, 2, 1, 2, 1, 3];
    let mut waiting: Vec<_> =
        begin_all(&threads, |i| m.wait_bitset(word, 0, bitsets[i])).into_iter().map(Some).collect();
    let wakes: [(i32, u32, &[usize]); 6] =
        [(2, 1, &[2, 4]), (ALL, 4, &[]), (2, 1, &[5]), (1, 2, &[0]), (1, ANY, &[1]), (ALL, 6, &[3])];
    for (count, bitset, woken) in wakes {
        assert_eq!(waker.call(m.wake_bitset(word, count, bitset)), woken.len() as isize, "{count} of {bitset}");
        woken.iter().for_each(|&i| assert_eq!(waiting[i].take().expect("once each").finish(), 0));
    }
}

fn real_time_priority_comes_before_the_order_of_arrival(m: &Machine) {
    if !m.has_priorities() {
        return;
    }
    let (waker, word) = (m.thread(), m.word(0));
    let threads: [Thread; 5] = m.threads();
    for (thread, priority) in std::iter::zip(&threads, [0, 10, 0, 20, 10]) {
        thread.set_priority(priority);
    }
    let mut waiting: Vec<_> = begin_all(&threads, |_| m.wait(word, 0)).into_iter().map(Some).collect();
    for next in [3, 1, 4, 0, 2] {
        assert_eq!(waker.call(m.wake(word, 1)), 1);
        assert_eq!(waiting[next].take().expect("once each").finish(), 0);
    }
}

fn priority_at_the_begin_of_the_wait_counts(m: &Machine) {
    if !m.has_priorities() {
        return;
    }
    let ([a, b, waker], word) = (m.threads(), m.word(0));
    let first = a.begin(m.wait(word, 0));
    let second = b.begin(m.wait(word, 0));
    b.set_priority(50);
    assert_eq!(waker.call(m.wake(word, 1)), 1);
    assert_eq!(first.finish(), 0);
    second.stays_asleep();
    assert_eq!(waker.call(m.wake(word, 1)), 1);
    assert_eq!(second.finish(), 0);
}

fn inherited_priority_does_not_count(m: &Machine) {
    if !m.has_priorities() {
        return;
    }
    let ([a, b, lender, waker], [word, lock]) = (m.threads(), m.words(0));
    assert_eq!(b.call(m.lock_pi(lock)), 0);
    lender.set_priority(50);
    let lending = lender.begin(m.lock_pi(lock));
    assert_eq!(b.priority(), 50);
    let first = a.begin(m.wait(word, 0));
    let second = b.begin(m.wait(word, 0));
    assert_eq!(waker.call(m.wake(word, 1)), 1);
    assert_eq!(first.finish(), 0);
    second.stays_asleep();
    assert_eq!(waker.call(m.wake(word, 1)), 1);
    assert_eq!(second.finish(), 0);
    assert_eq!(b.call(m.unlock_pi(lock)), 0);
    assert_eq!(lending.finish(), 0);
}

fn bitset_0_is_einval(m: &Machine) {
    let ([t, waker], word) = (m.threads(), m.word(0));
    let waiting = t.begin(m.wait(word, 0));
    assert_eq!(waker.call(m.wake_bitset(word, 1, 0)), EINVAL);
    waiting.stays_asleep();
    assert_eq!(waker.call(m.wake_bitset(word, 1, ANY)), 1);
    assert_eq!(waiting.finish(), 0);
}

fn waiter_for_a_pi_lock_cannot_be_woken(m: &Machine) {
    let ([owner, t, waker], word) = (m.threads(), m.word(0));
    assert_eq!(owner.call(m.lock_pi(word)), 0);
    let waiting = t.begin(m.lock_pi(word));
    for call in [m.wake(word, 1), m.wake(word, 0), m.wake_bitset(word, ALL, 1)] {
        assert_eq!(waker.call(call), EINVAL);
    }
    waiting.stays_asleep();
    assert_eq!(word.get(), owner.tid() | WAITERS);
    assert_eq!(owner.call(m.unlock_pi(word)), 0);
    assert_eq!(waiting.finish(), 0);
}

fn waiter_for_a_requeue_to_a_pi_lock_cannot_be_woken(m: &Machine) {
    let ([t, waker], [from, lock]) = (m.threads(), m.words(0));
    let waiting = t.begin(m.wait_requeue_pi(from, 0, lock));
    assert_eq!(waker.call(m.wake(from, 1)), EINVAL);
    // The kernel checks the kind of waiter before its bitset.
    assert_eq!(waker.call(m.wake_bitset(from, ALL, 1)), EINVAL);
    waiting.stays_asleep();
    assert_eq!(waker.call(m.cmp_requeue_pi(from, 0, lock, 0)), 1);
    assert_eq!(waiting.finish(), 0);
}

fn wake_that_reaches_a_pi_waiter_is_einval_but_wakes_earlier_waiters(m: &Machine) {
    let ([a, b, c, waker], [from, lock]) = (m.threads(), m.words(0));
    let first = a.begin(m.wait(from, 0));
    let second = b.begin(m.wait_requeue_pi(from, 0, lock));
    let third = c.begin(m.wait(from, 0));
    assert_eq!(waker.call(m.wake(from, ALL)), EINVAL);
    assert_eq!(first.finish(), 0);
    second.stays_asleep();
    third.stays_asleep();
    assert_eq!(waker.call(m.cmp_requeue_pi(from, 0, lock, 0)), 1);
    assert_eq!(second.finish(), 0);
    assert_eq!(waker.call(m.wake(from, ALL)), 1);
    assert_eq!(third.finish(), 0);
}

fn wake_that_does_not_reach_a_pi_waiter_succeeds(m: &Machine) {
    let ([a, b, waker], [from, lock]) = (m.threads(), m.words(0));
    let first = a.begin(m.wait(from, 0));
    let second = b.begin(m.wait_requeue_pi(from, 0, lock));
    assert_eq!(waker.call(m.wake(from, 1)), 1);
    assert_eq!(first.finish(), 0);
    assert_eq!(waker.call(m.cmp_requeue_pi(from, 0, lock, 0)), 1);
    assert_eq!(second.finish(), 0);
}

on_every_machine![
    wake_takes_the_first_waiters_and_returns_their_number,
    wake_of_150_waiters_at_once_wakes_them_all,
    words_in_one_bucket_do_not_mix,
    count_of_0_or_less_wakes_one,
    count_of_0_wakes_one_that_matches_the_bitset,
    wake_bitset_takes_the_first_that_match_and_the_others_keep_their_turn,
    real_time_priority_comes_before_the_order_of_arrival,
    priority_at_the_begin_of_the_wait_counts,
    inherited_priority_does_not_count,
    bitset_0_is_einval,
    waiter_for_a_pi_lock_cannot_be_woken,
    waiter_for_a_requeue_to_a_pi_lock_cannot_be_woken,
    wake_that_reaches_a_pi_waiter_is_einval_but_wakes_earlier_waiters,
    wake_that_does_not_reach_a_pi_waiter_succeeds,
];
