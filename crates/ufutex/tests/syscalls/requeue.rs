//! `FUTEX_REQUEUE` and `FUTEX_CMP_REQUEUE`.

use std::time::Duration;

use crate::calls::{ALL, begin_all};
use crate::common::errno::{EAGAIN, EFAULT, EINTR, EINVAL};
use crate::machine::{Interruption, Machine, Thread};
use crate::on_every_machine;

fn requeue_returns_the_woken_and_the_requeued_together(m: &Machine) {
    let (t, [from, to]) = (m.thread(), m.words(3));
    let threads: [Thread; 6] = m.threads();
    let mut waiting = begin_all(&threads, |_| m.wait(from, 3)).into_iter();
    assert_eq!(t.call(m.requeue(from, to, 1, 2)), 3);
    assert_eq!(waiting.next().expect("six").finish(), 0);
    assert_eq!(t.call(m.cmp_requeue(from, 3, to, 1, ALL)), 3);
    // The first call requeued the second and third waiter. The second call woke the fourth and requeued the others.
    let [b, c, d, e, f] = std::array::from_fn(|_| waiting.next().expect("six"));
    assert_eq!(d.finish(), 0);
    assert_eq!(t.call(m.wake(from, ALL)), 0);
    for waiting in [b, c, e, f] {
        waiting.stays_asleep();
        assert_eq!(t.call(m.wake(to, 1)), 1);
        assert_eq!(waiting.finish(), 0);
    }
}

fn requeue_without_waiters_returns_0(m: &Machine) {
    let (t, [from, to]) = (m.thread(), m.words(0));
    assert_eq!(t.call(m.requeue(from, to, 1, 1)), 0);
    assert_eq!(t.call(m.cmp_requeue(from, 0, to, ALL, ALL)), 0);
}

fn count_of_0_wakes_and_requeues_none(m: &Machine) {
    let ([a, b, t], [from, to]) = (m.threads(), m.words(0));
    let first = a.begin(m.wait(from, 0));
    let second = b.begin(m.wait(from, 0));
    assert_eq!(t.call(m.requeue(from, to, 0, 0)), 0);
    assert_eq!(t.call(m.requeue(from, to, 0, 1)), 1);
    first.stays_asleep();
    assert_eq!(t.call(m.cmp_requeue(from, 0, to, 1, 0)), 1);
    assert_eq!(second.finish(), 0);
    assert_eq!(t.call(m.wake(to, ALL)), 1);
    assert_eq!(first.finish(), 0);
}

fn negative_count_is_einval(m: &Machine) {
    let (t, [from, to]) = (m.thread(), m.words(0));
    for (wake, requeue) in [(-1, 0), (0, -1), (i32::MIN, 1), (1, i32::MIN), (-1, -1)] {
        assert_eq!(t.call(m.requeue(from, to, wake, requeue)), EINVAL, "{wake} {requeue}");
        assert_eq!(t.call(m.cmp_requeue(from, 0, to, wake, requeue)), EINVAL, "{wake} {requeue}");
        assert_eq!(t.call(m.cmp_requeue(from, 1, to, wake, requeue)), EINVAL, "before the value is looked at");
    }
}

fn cmp_requeue_returns_eagain_when_the_word_differs(m: &Machine) {
    let ([t, w], [from, to]) = (m.threads(), m.words(5));
    let waiting = w.begin(m.wait(from, 5));
    assert_eq!(t.call(m.cmp_requeue(from, 4, to, 1, 1)), EAGAIN);
    from.set(6);
    assert_eq!(t.call(m.cmp_requeue(from, 5, to, 1, 1)), EAGAIN);
    // The word is compared even if both counts are 0.
    assert_eq!(t.call(m.cmp_requeue(from, 5, to, 0, 0)), EAGAIN);
    waiting.stays_asleep();
    // Plain requeue does not compare.
    assert_eq!(t.call(m.requeue(from, to, 1, 1).value3(5)), 1);
    assert_eq!(waiting.finish(), 0);
}

fn cmp_requeue_does_not_read_the_target_word(m: &Machine) {
    let ([t, w], from) = (m.threads(), m.word(5));
    let waiting = w.begin(m.wait(from, 5));
    let to = m.word(99);
    assert_eq!(t.call(m.cmp_requeue(from, 5, to, 0, 1)), 1);
    assert_eq!(to.get(), 99);
    assert_eq!(t.call(m.wake(to, 1)), 1);
    assert_eq!(waiting.finish(), 0);
}

fn requeue_to_the_same_word_counts_and_keeps_the_order(m: &Machine) {
    let (t, word) = (m.thread(), m.word(0));
    let threads: [Thread; 4] = m.threads();
    let mut waiting = begin_all(&threads, |_| m.wait(word, 0)).into_iter();
    assert_eq!(t.call(m.requeue(word, word, 0, 2)), 2);
    assert_eq!(t.call(m.cmp_requeue(word, 0, word, 1, ALL)), 4);
    assert_eq!(waiting.next().expect("four").finish(), 0);
    for waiting in waiting {
        assert_eq!(t.call(m.wake(word, 1)), 1);
        assert_eq!(waiting.finish(), 0);
    }
}

/// More waiters than the engine handles in one piece in the global table.
fn many_waiters_are_requeued_counted_and_keep_their_order(m: &Machine) {
    let (t, word) = (m.thread(), m.word(0));
    let threads: [Thread; 300] = m.threads();
    let bits = |i: usize| if i == 150 || i == 299 { 2 } else { 1 };
    let mut waiting: Vec<_> = begin_all(&threads, |i| m.wait_bitset(word, 0, bits(i))).into_iter().map(Some).collect();
    let mut finish = |i: usize| assert_eq!(waiting[i].take().expect("once each").finish(), 0, "waiter {i}");
    assert_eq!(t.call(m.wake_bitset(word, ALL, 4)), 0);
    assert_eq!(t.call(m.cmp_requeue(word, 0, word, 0, ALL)), 300);
    assert_eq!(t.call(m.wake_bitset(word, 2, 2)), 2);
    finish(150);
    finish(299);
    assert_eq!(t.call(m.requeue(word, word, 1, ALL)), 298);
    finish(0);
    assert_eq!(t.call(m.requeue(word, word, 0, 280)), 280);
    for i in (1..299).filter(|&i| i != 150) {
        assert_eq!(t.call(m.wake_bitset(word, 1, 1)), 1);
        finish(i);
    }
}

fn requeue_ignores_bitsets_and_keeps_them(m: &Machine) {
    let ([t, a, b], [from, to]) = (m.threads(), m.words(0));
    let woken = a.begin(m.wait_bitset(from, 0, 8));
    let moved = b.begin(m.wait_bitset(from, 0, 4));
    assert_eq!(t.call(m.requeue(from, to, 1, 1)), 2);
    assert_eq!(woken.finish(), 0);
    assert_eq!(t.call(m.wake_bitset(to, ALL, 3)), 0);
    moved.stays_asleep();
    assert_eq!(t.call(m.wake_bitset(to, ALL, 4)), 1);
    assert_eq!(moved.finish(), 0);
}

fn requeued_waiter_can_be_requeued_again(m: &Machine) {
    let ([t, w], words) = (m.threads(), m.words::<5>(0));
    let waiting = w.begin(m.wait(words[0], 0));
    for pair in words.windows(2) {
        assert_eq!(t.call(m.requeue(pair[0], pair[1], 0, 1)), 1);
        assert_eq!(t.call(m.wake(pair[0], 1)), 0);
    }
    waiting.stays_asleep();
    assert_eq!(t.call(m.wake(words[4], 1)), 1);
    assert_eq!(waiting.finish(), 0);
}

fn requeue_takes_real_time_priority_first(m: &Machine) {
    if !m.has_priorities() {
        return;
    }
    let ([a, b, t], [from, to]) = (m.threads(), m.words(0));
    b.set_priority(5);
    let first = a.begin(m.wait(from, 0));
    let second = b.begin(m.wait(from, 0));
    assert_eq!(t.call(m.requeue(from, to, 1, 1)), 2);
    assert_eq!(second.finish(), 0);
    first.stays_asleep();
    assert_eq!(t.call(m.wake(to, 1)), 1);
    assert_eq!(first.finish(), 0);
}

fn waiter_that_is_interrupted_after_a_requeue_leaves_no_entry(m: &Machine) {
    let ([t, w], [from, to]) = (m.threads(), m.words(0));
    let waiting = w.begin(m.wait(from, 0));
    assert_eq!(t.call(m.requeue(from, to, 0, 1)), 1);
    w.interrupt(Interruption::Handler);
    assert_eq!(waiting.finish(), EINTR);
    assert_eq!(t.call(m.wake(to, ALL)), 0);
    assert_eq!(t.call(m.wake(from, ALL)), 0);
}

fn wait_that_is_restarted_after_a_requeue_waits_on_its_first_word(m: &Machine) {
    let ([t, w], [from, to]) = (m.threads(), m.words(0));
    let waiting = w.begin(m.wait(from, 0));
    assert_eq!(t.call(m.requeue(from, to, 0, 1)), 1);
    w.interrupt(Interruption::RestartingHandler);
    waiting.until_asleep();
    assert_eq!(t.call(m.wake(to, ALL)), 0);
    assert_eq!(t.call(m.wake(from, ALL)), 1);
    assert_eq!(waiting.finish(), 0);
}

fn timeout_of_the_waiter_still_holds_after_a_requeue(m: &Machine) {
    let ([t, w], [from, to]) = (m.threads(), m.words(0));
    let far = m.time(Duration::from_secs(1000));
    let waiting = w.begin(m.wait(from, 0).timeout(far));
    assert_eq!(t.call(m.requeue(from, to, 0, 1)), 1);
    assert_eq!(t.call(m.wake(to, 1)), 1);
    assert_eq!(waiting.finish(), 0);
}

fn waiter_for_a_pi_lock_cannot_be_requeued(m: &Machine) {
    let ([owner, w, t], [lock, to]) = (m.threads(), m.words(0));
    assert_eq!(owner.call(m.lock_pi(lock)), 0);
    let waiting = w.begin(m.lock_pi(lock));
    let value = lock.get();
    for call in [m.requeue(lock, to, 1, 0), m.requeue(lock, to, 0, 1), m.cmp_requeue(lock, value, to, 1, 1)] {
        assert_eq!(t.call(call), EINVAL);
    }
    assert_eq!(t.call(m.requeue(lock, to, 0, 0)), 0, "no waiter is checked");
    waiting.stays_asleep();
    assert_eq!(owner.call(m.unlock_pi(lock)), 0);
    assert_eq!(waiting.finish(), 0);
}

fn waiter_for_a_requeue_to_a_pi_lock_cannot_be_requeued_plainly(m: &Machine) {
    let ([a, w, t], [from, lock, to]) = (m.threads(), m.words(0));
    let first = a.begin(m.wait(from, 0));
    let waiting = w.begin(m.wait_requeue_pi(from, 0, lock));
    // The waiters before it have been woken or requeued nevertheless.
    assert_eq!(t.call(m.cmp_requeue(from, 0, to, 0, ALL)), EINVAL);
    first.stays_asleep();
    assert_eq!(t.call(m.wake(to, ALL)), 1);
    assert_eq!(first.finish(), 0);
    assert_eq!(t.call(m.requeue(from, lock, 0, 1)), EINVAL);
    assert_eq!(t.call(m.requeue(from, to, 1, 0)), EINVAL);
    waiting.stays_asleep();
    assert_eq!(t.call(m.cmp_requeue_pi(from, 0, lock, 0)), 1);
    assert_eq!(waiting.finish(), 0);
}

fn both_addresses_must_be_valid(m: &Machine) {
    let (t, word) = (m.thread(), m.word(0));
    assert_eq!(t.call(m.requeue(word.0 + 1, word, 1, 1)), EINVAL);
    assert_eq!(t.call(m.requeue(word, word.0 + 2, 1, 1)), EINVAL);
    let kernels = 1u64 << 63;
    assert_eq!(t.call(m.requeue(kernels, word, 1, 1)), EFAULT);
    assert_eq!(t.call(m.requeue(word, kernels, 1, 1)), EFAULT);
    assert_eq!(t.call(m.requeue(kernels, word.0 + 1, 1, 1)), EFAULT, "the first is looked at first");
    assert_eq!(t.call(m.requeue(word.0 + 1, kernels, 1, 1)), EINVAL, "the first is looked at first");
    assert_eq!(t.call(m.cmp_requeue(0u64, 0, word, 1, 1)), EFAULT, "its word is compared");
    assert_eq!(t.call(m.cmp_requeue(word, 1, word.0 + 1, 1, 1)), EINVAL, "before the value is looked at");
    // Private addresses that are not read need not be mapped.
    let nothing = if m.is_private() { 0 } else { EFAULT };
    assert_eq!(t.call(m.requeue(0u64, word, 1, 1)), nothing);
    assert_eq!(t.call(m.requeue(word, 0u64, 1, 1)), nothing);
}

on_every_machine![
    requeue_returns_the_woken_and_the_requeued_together,
    requeue_without_waiters_returns_0,
    count_of_0_wakes_and_requeues_none,
    negative_count_is_einval,
    cmp_requeue_returns_eagain_when_the_word_differs,
    cmp_requeue_does_not_read_the_target_word,
    requeue_to_the_same_word_counts_and_keeps_the_order,
    many_waiters_are_requeued_counted_and_keep_their_order,
    requeue_ignores_bitsets_and_keeps_them,
    requeued_waiter_can_be_requeued_again,
    requeue_takes_real_time_priority_first,
    waiter_that_is_interrupted_after_a_requeue_leaves_no_entry,
    wait_that_is_restarted_after_a_requeue_waits_on_its_first_word,
    timeout_of_the_waiter_still_holds_after_a_requeue,
    waiter_for_a_pi_lock_cannot_be_requeued,
    waiter_for_a_requeue_to_a_pi_lock_cannot_be_requeued_plainly,
    both_addresses_must_be_valid,
];
