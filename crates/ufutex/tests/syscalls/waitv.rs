//! futex_waitv(2).

use std::time::Duration;

use crate::calls::{ALL, Entry, MPOL, NUMA, PRIVATE, SIZE_U8, SIZE_U16, SIZE_U32, SIZE_U64};
use crate::common::arena::Rights;
use crate::common::errno::{EAGAIN, EFAULT, EINVAL, ETIMEDOUT};
use crate::common::libc;
use crate::machine::Machine;
use crate::memory::Word;
use crate::on_every_machine;

/// The maximum number of words.
fn many(m: &Machine) -> Vec<Word> {
    (0..128).map(|_| m.private_word(0)).collect()
}

fn private(m: &Machine, words: &[Word]) -> Vec<Entry> {
    words.iter().map(|&word| Entry { flags: SIZE_U32 | PRIVATE, ..m.entry(word, 0) }).collect()
}

fn waitv_returns_the_index_of_the_word_that_was_woken(m: &Machine) {
    let ([w, t], words) = (m.threads(), m.words::<4>(0));
    for (i, word) in words.into_iter().enumerate() {
        let waiting = w.begin(m.waitv(&words.map(|word| m.entry(word, 0))));
        assert_eq!(t.call(m.wake(word, ALL)), 1);
        assert_eq!(waiting.finish(), i as isize);
        for word in words {
            assert_eq!(t.call(m.wake(word, ALL)), 0, "nothing is left queued");
        }
    }
}

fn one_entry_is_enough_and_128_are_possible(m: &Machine) {
    let ([w, t], words) = (m.threads(), many(m));
    for i in [0, 1, 64, 127] {
        let waiting = w.begin(m.waitv(&private(m, &words)));
        assert_eq!(t.call(m.wake(words[i], 1).private()), 1);
        assert_eq!(waiting.finish(), i as isize);
    }
    let waiting = w.begin(m.waitv(&private(m, &words[..1])));
    assert_eq!(t.call(m.wake(words[0], 1).private()), 1);
    assert_eq!(waiting.finish(), 0);
}

fn no_entry_and_more_than_128_are_einval(m: &Machine) {
    let (t, words) = (m.thread(), many(m));
    let mut entries = private(m, &words);
    entries.push(entries[0]);
    let at = m.entries(&entries);
    for count in [0, 129, 1 << 20, u64::from(u32::MAX)] {
        assert_eq!(t.call(m.raw_waitv(at, count)), EINVAL, "{count}");
    }
    // The count is 32 bits. The upper half of the register is ignored.
    assert_eq!(t.call(m.raw_waitv(at, 1 << 32)), EINVAL);
    words[0].set(1);
    assert_eq!(t.call(m.raw_waitv(at, 1 << 32 | 1)), EAGAIN);
}

fn unmapped_entries(m: &Machine) {
    let t = m.thread();
    assert_eq!(t.call(m.raw_waitv(0, 1)), EINVAL);
    assert_eq!(t.call(m.raw_waitv(8, 1)), EFAULT);
    assert_eq!(t.call(m.raw_waitv(1 << 63, 1)), EFAULT);
    let page = m.page(Rights::Nothing);
    assert_eq!(t.call(m.raw_waitv(page, 1)), EFAULT);
    // The entries are read and checked one after the other.
    let page = m.page(Rights::ReadWrite);
    m.page(Rights::Nothing);
    let last = page + 4096 - 24;
    m.put_u64(last + 16, m.flags().into());
    assert_eq!(t.call(m.raw_waitv(last, 2)), EFAULT);
    m.put_u64(last + 16, 1 << 30);
    assert_eq!(t.call(m.raw_waitv(last, 2)), EINVAL);
}

fn flags_of_the_call_must_be_0(m: &Machine) {
    let (t, word) = (m.thread(), m.word(0));
    for flags in [1, 2, 128, 256, 1 << 31] {
        assert_eq!(t.call(m.waitv(&[m.entry(word, 0)]).argument(2, flags)), EINVAL, "{flags:#x}");
        assert_eq!(t.call(m.raw_waitv(8, 1).argument(2, flags)), EINVAL, "before the entries are read");
    }
}

fn flags_of_an_entry_must_be_known(m: &Machine) {
    let (t, word) = (m.thread(), m.word(0));
    let good = m.entry(word, 1);
    let sizes = [SIZE_U8, SIZE_U16, SIZE_U64];
    let unknown = [16, 32, 64, 256, 512, 1 << 16, 1 << 31].map(|bit| bit | SIZE_U32);
    for flags in sizes.into_iter().chain(unknown) {
        for entries in [[Entry { flags, ..good }, good], [good, Entry { flags, ..good }]] {
            assert_eq!(t.call(m.waitv(&entries)), EINVAL, "{flags:#x}");
        }
    }
    // These flags are valid.
    for flags in [SIZE_U32, SIZE_U32 | PRIVATE] {
        assert_eq!(t.call(m.waitv(&[Entry { flags, ..good }])), EAGAIN, "{flags:#x}");
    }
    for flags in [SIZE_U32 | NUMA, SIZE_U32 | NUMA | PRIVATE, SIZE_U32 | MPOL, SIZE_U32 | MPOL | NUMA] {
        word.set(0);
        Word(word.0 + 4).set(0);
        assert_eq!(t.call(m.waitv(&[Entry { flags, ..good }])), EAGAIN, "{flags:#x}");
    }
}

fn reserved_field_must_be_0(m: &Machine) {
    let (t, word) = (m.thread(), m.word(0));
    let good = m.entry(word, 1);
    assert_eq!(t.call(m.waitv(&[Entry { reserved: 1, ..good }])), EINVAL);
    assert_eq!(t.call(m.waitv(&[good, Entry { reserved: 1 << 31, ..good }])), EINVAL);
}

fn value_must_fit_the_word(m: &Machine) {
    let (t, word) = (m.thread(), m.word(0));
    let good = m.entry(word, 0);
    for value in [1 << 32, u64::MAX, 1 << 63] {
        assert_eq!(t.call(m.waitv(&[Entry { value, ..good }])), EINVAL, "{value:#x}");
    }
    assert_eq!(t.call(m.waitv(&[Entry { value: u32::MAX.into(), ..good }])), EAGAIN);
}

fn addresses_must_be_good(m: &Machine) {
    let (t, word) = (m.thread(), m.word(0));
    let good = m.entry(word, 1);
    let fault = [0, 1 << 63, m.page(Rights::Nothing)];
    for address in fault {
        assert_eq!(t.call(m.waitv(&[Entry { address, ..good }, m.entry(word, 0)])), EFAULT, "{address:#x}");
    }
    assert_eq!(t.call(m.waitv(&[Entry { address: word.0 + 1, ..good }])), EINVAL);
    // All addresses are checked before the first word is compared.
    assert_eq!(t.call(m.waitv(&[good, Entry { address: word.0 + 2, ..good }])), EINVAL);
    assert_eq!(t.call(m.waitv(&[good, Entry { address: 1 << 63, ..good }])), EFAULT);
    // An unmapped private word fails only when it is compared.
    let private = if m.is_private() { EAGAIN } else { EFAULT };
    assert_eq!(t.call(m.waitv(&[good, Entry { address: 0, ..good }])), private);
}

fn any_word_that_differs_is_eagain_and_nothing_is_left_queued(m: &Machine) {
    let (t, words) = (m.thread(), m.words::<4>(0));
    for differs in 0..4 {
        let mut entries = words.map(|word| m.entry(word, 0));
        entries[differs].value = 1;
        assert_eq!(t.call(m.waitv(&entries)), EAGAIN);
        for word in words {
            assert_eq!(t.call(m.wake(word, ALL)), 0);
        }
    }
}

fn highest_index_is_returned_of_those_that_one_call_woke(m: &Machine) {
    const WAKE_BOTH: u32 = 1 << 28; // adds 0, and compares with "equal to 0", which is true
    for (first, second) in [(0, 2), (2, 0), (1, 3)] {
        let ([w, t], words) = (m.threads(), m.words::<4>(0));
        let waiting = w.begin(m.waitv(&words.map(|word| m.entry(word, 0))));
        assert_eq!(t.call(m.wake_op(words[first], words[second], [1, 1], WAKE_BOTH)), 2);
        assert_eq!(waiting.finish(), first.max(second) as isize);
    }
}

fn word_may_come_twice_and_counts_twice(m: &Machine) {
    let ([w, t], [a, b]) = (m.threads(), m.words(0));
    let entries = [m.entry(a, 0), m.entry(b, 0), m.entry(a, 0)];
    let waiting = w.begin(m.waitv(&entries));
    assert_eq!(t.call(m.wake(a, 1)), 1);
    assert_eq!(waiting.finish(), 0, "the first of them came first");
    let waiting = w.begin(m.waitv(&entries));
    assert_eq!(t.call(m.wake(a, ALL)), 2);
    assert_eq!(waiting.finish(), 2);
    assert_eq!(t.call(m.wake(b, ALL)), 0);
}

fn entry_can_be_requeued_and_keeps_its_index(m: &Machine) {
    let ([w, t], [a, b, to]) = (m.threads(), m.words(0));
    let waiting = w.begin(m.waitv(&[m.entry(a, 0), m.entry(b, 0)]));
    assert_eq!(t.call(m.requeue(b, to, 0, ALL)), 1);
    assert_eq!(t.call(m.wake(b, ALL)), 0);
    waiting.stays_asleep();
    assert_eq!(t.call(m.wake(to, ALL)), 1);
    assert_eq!(waiting.finish(), 1);
    assert_eq!(t.call(m.wake(a, ALL)), 0);
}

fn entries_match_every_bitset(m: &Machine) {
    let ([w, t], word) = (m.threads(), m.word(0));
    let waiting = w.begin(m.waitv(&[m.entry(word, 0)]));
    assert_eq!(t.call(m.wake_bitset(word, 1, 1 << 31)), 1);
    assert_eq!(waiting.finish(), 0);
}

fn private_and_shared_entries_may_be_mixed(m: &Machine) {
    let [w, t] = m.threads();
    let (private, shared) = (m.private_word(0), m.twin_words(0));
    let entries = [
        Entry { flags: SIZE_U32 | PRIVATE, ..m.entry(private, 0) },
        Entry { flags: SIZE_U32, ..m.entry(shared[0], 0) },
        Entry { flags: SIZE_U32, ..m.entry(private, 0) },
    ];
    for (wake, index) in [
        (m.wake(private, 1).private(), 0),
        (m.wake(shared[0], 1).shared(), 1),
        (m.wake(shared[1], 1).shared(), 1),
        (m.wake(private, 1).shared(), 2),
    ] {
        let waiting = w.begin(m.waitv(&entries));
        assert_eq!(t.call(m.wake(shared[0], 1).private()), 0);
        assert_eq!(t.call(wake), 1);
        assert_eq!(waiting.finish(), index);
    }
}

fn timeout_is_absolute_of_either_clock(m: &Machine) {
    let (t, word) = (m.thread(), m.word(0));
    for clock in [libc::CLOCK_MONOTONIC, libc::CLOCK_REALTIME] {
        let call = m.waitv(&[m.entry(word, 0)]).argument(4, clock as u64);
        let soon = m.time_from_now(clock, Duration::from_millis(10));
        assert_eq!(t.call(call.timeout(soon)), ETIMEDOUT);
        assert_eq!(t.call(call.timeout(m.past())), ETIMEDOUT);
        let waiting = t.begin(call.timeout(m.far(clock)));
        m.assert_waiters(word, 1);
        assert_eq!(waiting.finish(), 0);
    }
    m.assert_waiters(word, 0);
}

fn differing_word_is_eagain_after_the_deadline(m: &Machine) {
    let (t, word) = (m.thread(), m.word(0));
    assert_eq!(t.call(m.waitv(&[m.entry(word, 1)]).timeout(m.past())), EAGAIN);
}

fn clock_is_checked_only_with_a_timeout(m: &Machine) {
    let (t, word) = (m.thread(), m.word(0));
    for clock in [2, 3, 4, 5, 6, 7, 11, 99, -1i32 as u32 as u64] {
        let call = m.waitv(&[m.entry(word, 1)]).argument(4, clock);
        assert_eq!(t.call(call), EAGAIN, "{clock}");
        assert_eq!(t.call(call.timeout(m.past())), EINVAL, "{clock}");
        assert_eq!(t.call(call.timeout(8)), EINVAL, "before the time is read");
    }
}

fn time_must_be_valid_and_is_read_before_the_entries(m: &Machine) {
    let (t, word) = (m.thread(), m.word(0));
    for call in [m.waitv(&[m.entry(word, 1)]), m.raw_waitv(8, 1)] {
        for (seconds, nanoseconds) in [(-1, 0), (0, -1), (0, 1_000_000_000), (i64::MIN, 0)] {
            assert_eq!(t.call(call.timeout(m.raw_time(seconds, nanoseconds))), EINVAL);
        }
        assert_eq!(t.call(call.timeout(8)), EFAULT);
        assert_eq!(t.call(call.timeout(1 << 63)), EFAULT);
    }
    // The count is checked before both.
    assert_eq!(t.call(m.raw_waitv(8, 0).timeout(8)), EINVAL);
    assert_eq!(t.call(m.raw_waitv(0, 1).timeout(8)), EINVAL);
}

on_every_machine![
    waitv_returns_the_index_of_the_word_that_was_woken,
    one_entry_is_enough_and_128_are_possible,
    no_entry_and_more_than_128_are_einval,
    unmapped_entries,
    flags_of_the_call_must_be_0,
    flags_of_an_entry_must_be_known,
    reserved_field_must_be_0,
    value_must_fit_the_word,
    addresses_must_be_good,
    any_word_that_differs_is_eagain_and_nothing_is_left_queued,
    highest_index_is_returned_of_those_that_one_call_woke,
    word_may_come_twice_and_counts_twice,
    entry_can_be_requeued_and_keeps_its_index,
    entries_match_every_bitset,
    private_and_shared_entries_may_be_mixed,
    timeout_is_absolute_of_either_clock,
    differing_word_is_eagain_after_the_deadline,
    clock_is_checked_only_with_a_timeout,
    time_must_be_valid_and_is_read_before_the_entries,
];
