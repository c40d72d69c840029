//! futex_wait(2), futex_wake(2) and futex_requeue(2).

use std::time::Duration;

use crate::calls::{ALL, ANY, Entry, PRIVATE, SIZE_U8, SIZE_U16, SIZE_U32, SIZE_U64, begin_all};
use crate::common::errno::{EAGAIN, EFAULT, EINVAL, ETIMEDOUT};
use crate::common::libc;
use crate::machine::{Machine, Thread};
use crate::on_every_machine;

const EVERY: u64 = ANY as u64;

/// Invalid flags: sizes other than 32 bits, and undefined bits.
fn bad_flags() -> impl Iterator<Item = u64> {
    let sizes = [SIZE_U8, SIZE_U16, SIZE_U64, SIZE_U64 | PRIVATE].into_iter();
    sizes.chain([16, 32, 64, 256, 512, 1 << 30, 1 << 31].map(|bit| SIZE_U32 | bit)).map(u64::from)
}

fn wait_and_wake_match(m: &Machine) {
    let ([w, t], word) = (m.threads(), m.word(5));
    let waiting = w.begin(m.wait2(word, 5, EVERY));
    assert_eq!(t.call(m.wake2(word, EVERY, 1)), 1);
    assert_eq!(waiting.finish(), 0);
    assert_eq!(w.call(m.wait2(word, 4, EVERY)), EAGAIN);
    assert_eq!(t.call(m.wake2(word, EVERY, 1)), 0);
}

fn they_match_futex_operations(m: &Machine) {
    let ([w, t], word) = (m.threads(), m.word(5));
    let waiting = w.begin(m.wait2(word, 5, EVERY));
    assert_eq!(t.call(m.wake(word, 1)), 1);
    assert_eq!(waiting.finish(), 0);
    let waiting = w.begin(m.wait(word, 5));
    assert_eq!(t.call(m.wake2(word, EVERY, 1)), 1);
    assert_eq!(waiting.finish(), 0);
}

fn wake_of_0_wakes_none_and_of_less_wakes_one(m: &Machine) {
    let (t, word) = (m.thread(), m.word(0));
    let threads: [Thread; 3] = m.threads();
    let waiting = begin_all(&threads, |_| m.wait2(word, 0, EVERY));
    assert_eq!(t.call(m.wake2(word, EVERY, 0)), 0);
    for waiting in &waiting {
        waiting.stays_asleep();
    }
    for (waiting, count) in std::iter::zip(waiting, [-1, i32::MIN, 1]) {
        assert_eq!(t.call(m.wake2(word, EVERY, count)), 1, "{count}");
        assert_eq!(waiting.finish(), 0);
    }
}

fn wake_of_0_checks_its_arguments(m: &Machine) {
    let (t, word) = (m.thread(), m.word(0));
    assert_eq!(t.call(m.wake2(word.0 + 1, EVERY, 0)), EINVAL);
    assert_eq!(t.call(m.wake2(1u64 << 63, EVERY, 0)), EFAULT);
    assert_eq!(t.call(m.wake2(word, 0, 0)), EINVAL);
}

fn masks_choose(m: &Machine) {
    let ([w, t], word) = (m.threads(), m.word(0));
    let waiting = w.begin(m.wait2(word, 0, 0b0110));
    assert_eq!(t.call(m.wake2(word, 0b1001, ALL)), 0);
    waiting.stays_asleep();
    assert_eq!(t.call(m.wake2(word, 0b0100, ALL)), 1);
    assert_eq!(waiting.finish(), 0);
}

fn mask_must_have_a_bit_and_fit_the_word(m: &Machine) {
    let (t, word) = (m.thread(), m.word(0));
    for mask in [0, 1 << 32, 1 << 63, u64::MAX, 1 << 32 | 1] {
        assert_eq!(t.call(m.wake2(word, mask, 1)), EINVAL, "{mask:#x}");
        assert_eq!(t.call(m.wait2(word, 1, mask)), EINVAL, "{mask:#x}");
    }
    assert_eq!(t.call(m.wait2(word, 1, 1)), EAGAIN);
}

fn value_must_fit_the_word(m: &Machine) {
    let (t, word) = (m.thread(), m.word(0));
    for value in [1 << 32, 1 << 63, u64::MAX] {
        assert_eq!(t.call(m.wait2(word, value, EVERY)), EINVAL, "{value:#x}");
    }
    assert_eq!(t.call(m.wait2(word, EVERY, EVERY)), EAGAIN);
}

fn flags_must_be_known(m: &Machine) {
    let (t, word) = (m.thread(), m.word(0));
    for flags in bad_flags() {
        assert_eq!(t.call(m.wake2(word, EVERY, 1).argument(3, flags)), EINVAL, "{flags:#x}");
        assert_eq!(t.call(m.wait2(word, 1, EVERY).argument(3, flags)), EINVAL, "{flags:#x}");
    }
    // Flags are 32 bits. The upper half of the register is ignored.
    assert_eq!(t.call(m.wait2(word, 1, EVERY).argument(3, u64::from(m.flags()) | 1 << 40)), EAGAIN);
}

fn addresses_must_be_good(m: &Machine) {
    let (t, word) = (m.thread(), m.word(0));
    assert_eq!(t.call(m.wait2(word.0 + 2, 1, EVERY)), EINVAL);
    assert_eq!(t.call(m.wake2(word.0 + 2, EVERY, 1)), EINVAL);
    assert_eq!(t.call(m.wait2(1u64 << 63, 1, EVERY)), EFAULT);
    assert_eq!(t.call(m.wake2(1u64 << 63, EVERY, 1)), EFAULT);
    assert_eq!(t.call(m.wait2(0u64, 1, EVERY)), EFAULT);
    assert_eq!(t.call(m.wake2(0u64, EVERY, 1)), if m.is_private() { 0 } else { EFAULT });
}

fn timeout_is_absolute_of_either_clock(m: &Machine) {
    let (t, word) = (m.thread(), m.word(0));
    for clock in [libc::CLOCK_MONOTONIC, libc::CLOCK_REALTIME] {
        let call = m.wait2(word, 0, EVERY).argument(5, clock as u64);
        assert_eq!(t.call(call.timeout(m.time_from_now(clock, Duration::from_millis(10)))), ETIMEDOUT);
        assert_eq!(t.call(call.timeout(m.past())), ETIMEDOUT);
        let waiting = t.begin(call.timeout(m.far(clock)));
        m.assert_waiters(word, 1);
        assert_eq!(waiting.finish(), 0);
    }
    m.assert_waiters(word, 0);
}

fn clock_is_checked_only_with_a_timeout(m: &Machine) {
    let (t, word) = (m.thread(), m.word(0));
    for clock in [2, 7, 99, u32::MAX.into()] {
        let call = m.wait2(word, 1, EVERY).argument(5, clock);
        assert_eq!(t.call(call), EAGAIN, "{clock}");
        assert_eq!(t.call(call.timeout(m.past())), EINVAL, "{clock}");
        assert_eq!(t.call(call.timeout(8)), EINVAL, "before the time is read");
    }
}

fn time_must_be_valid_and_is_read_before_the_word(m: &Machine) {
    let (t, word) = (m.thread(), m.word(0));
    for call in [m.wait2(word, 1, EVERY), m.wait2(word.0 + 1, 0, EVERY), m.wait2(word, 0, 0)] {
        for (seconds, nanoseconds) in [(-1, 0), (0, -1), (0, 1_000_000_000)] {
            assert_eq!(t.call(call.timeout(m.raw_time(seconds, nanoseconds))), EINVAL);
        }
        assert_eq!(t.call(call.timeout(8)), EFAULT);
    }
    // Arguments are checked before the timeout is read from memory.
    assert_eq!(t.call(m.wait2(word, 1 << 32, EVERY).timeout(8)), EINVAL);
    assert_eq!(t.call(m.wait2(word, 0, 1 << 32).timeout(8)), EINVAL);
    assert_eq!(t.call(m.wait2(word, 0, EVERY).argument(3, 1 << 20).timeout(8)), EINVAL);
}

fn requeue_compares_wakes_and_requeues(m: &Machine) {
    let (t, [from, to]) = (m.thread(), m.words(7));
    let threads: [Thread; 4] = m.threads();
    let mut waiting = begin_all(&threads, |_| m.wait2(from, 7, EVERY)).into_iter();
    let pair = |expected| [m.entry(from, expected), m.entry(to, 99)];
    assert_eq!(t.call(m.requeue2(&pair(8), 1, 1)), EAGAIN);
    assert_eq!(t.call(m.requeue2(&pair(7), 0, 0)), 0);
    assert_eq!(t.call(m.requeue2(&pair(7), 1, 2)), 3);
    assert_eq!(waiting.next().expect("four").finish(), 0);
    assert_eq!(t.call(m.wake2(to, EVERY, ALL)), 2);
    assert_eq!(waiting.next().expect("four").finish(), 0);
    assert_eq!(waiting.next().expect("four").finish(), 0);
    assert_eq!(t.call(m.wake2(from, EVERY, ALL)), 1);
    assert_eq!(waiting.next().expect("four").finish(), 0);
}

fn requeue_refuses_negative_counts(m: &Machine) {
    let (t, [from, to]) = (m.thread(), m.words(7));
    let pair = [m.entry(from, 7), m.entry(to, 7)];
    assert_eq!(t.call(m.requeue2(&pair, -1, 1)), EINVAL);
    assert_eq!(t.call(m.requeue2(&pair, 1, -1)), EINVAL);
    assert_eq!(t.call(m.requeue2(&pair, 0, i32::MIN)), EINVAL);
}

fn requeue_needs_equal_flags_of_both_words(m: &Machine) {
    let (t, [from, to]) = (m.thread(), m.words(7));
    let (from, to) = (m.entry(from, 8), m.entry(to, 7));
    let other = if m.is_private() { SIZE_U32 } else { SIZE_U32 | PRIVATE };
    assert_eq!(t.call(m.requeue2(&[from, Entry { flags: other, ..to }], 1, 1)), EINVAL);
    assert_eq!(t.call(m.requeue2(&[Entry { flags: other, ..from }, to], 1, 1)), EINVAL);
}

fn requeue_needs_valid_entries(m: &Machine) {
    let (t, [from, to]) = (m.thread(), m.words(7));
    let (from, to) = (m.entry(from, 8), m.entry(to, 7));
    for flags in bad_flags().map(|flags| flags as u32) {
        let (bad_from, bad_to) = (Entry { flags, ..from }, Entry { flags, ..to });
        for pair in [[bad_from, to], [from, bad_to], [bad_from, bad_to]] {
            assert_eq!(t.call(m.requeue2(&pair, 1, 1)), EINVAL, "{flags:#x}");
        }
    }
    for pair in [
        [Entry { reserved: 1, ..from }, to],
        [from, Entry { reserved: 1, ..to }],
        [Entry { value: 1 << 32, ..from }, to],
        // The second value is not compared, but it must fit into the word.
        [from, Entry { value: 1 << 32, ..to }],
        [Entry { address: from.address + 1, ..from }, to],
        [from, Entry { address: to.address + 1, ..to }],
    ] {
        assert_eq!(t.call(m.requeue2(&pair, 1, 1)), EINVAL, "{pair:?}");
    }
    assert_eq!(t.call(m.requeue2(&[Entry { address: 1 << 63, ..from }, to], 1, 1)), EFAULT);
    assert_eq!(t.call(m.requeue2(&[from, Entry { address: 1 << 63, ..to }], 1, 1)), EFAULT);
}

fn requeue_needs_entries_and_call_flags_of_0(m: &Machine) {
    let (t, [from, to]) = (m.thread(), m.words(7));
    let call = m.requeue2(&[m.entry(from, 8), m.entry(to, 7)], 1, 1);
    assert_eq!(t.call(call.argument(0, 0)), EINVAL);
    assert_eq!(t.call(call.argument(0, 8)), EFAULT);
    for flags in [1, 2, 128, 1 << 31] {
        assert_eq!(t.call(call.argument(1, flags)), EINVAL);
        assert_eq!(t.call(call.argument(1, flags).argument(0, 8)), EINVAL, "before the entries are read");
    }
    assert_eq!(t.call(call), EAGAIN);
}

fn requeue_to_the_same_word_counts(m: &Machine) {
    let ([w, t], word) = (m.threads(), m.word(0));
    let waiting = w.begin(m.wait2(word, 0, EVERY));
    assert_eq!(t.call(m.requeue2(&[m.entry(word, 0), m.entry(word, 0)], 0, 1)), 1);
    waiting.stays_asleep();
    assert_eq!(t.call(m.wake2(word, EVERY, 1)), 1);
    assert_eq!(waiting.finish(), 0);
}

on_every_machine![
    wait_and_wake_match,
    they_match_futex_operations,
    wake_of_0_wakes_none_and_of_less_wakes_one,
    wake_of_0_checks_its_arguments,
    masks_choose,
    mask_must_have_a_bit_and_fit_the_word,
    value_must_fit_the_word,
    flags_must_be_known,
    addresses_must_be_good,
    timeout_is_absolute_of_either_clock,
    clock_is_checked_only_with_a_timeout,
    time_must_be_valid_and_is_read_before_the_word,
    requeue_compares_wakes_and_requeues,
    requeue_refuses_negative_counts,
    requeue_needs_equal_flags_of_both_words,
    requeue_needs_valid_entries,
    requeue_needs_entries_and_call_flags_of_0,
    requeue_to_the_same_word_counts,
];
