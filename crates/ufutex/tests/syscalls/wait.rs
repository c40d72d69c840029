//! `FUTEX_WAIT` and `FUTEX_WAIT_BITSET`.

use crate::calls::ANY;
use crate::common::errno::{EAGAIN, EINVAL};
use crate::machine::Machine;
use crate::on_every_machine;

fn wait_returns_eagain_when_the_word_differs_in_any_bit(m: &Machine) {
    let (t, word) = (m.thread(), m.word(0x5a5a_a5a5));
    for bit in 0..32 {
        assert_eq!(t.call(m.wait(word, 0x5a5a_a5a5 ^ 1 << bit)), EAGAIN, "bit {bit}");
        assert_eq!(t.call(m.wait_bitset(word, 0x5a5a_a5a5 ^ 1 << bit, ANY)), EAGAIN, "bit {bit}");
    }
    m.assert_waiters(word, 0);
}

fn wait_returns_0_when_it_is_woken(m: &Machine) {
    let ([t, waker], word) = (m.threads(), m.word(7));
    for call in [m.wait(word, 7), m.wait_bitset(word, 7, 1)] {
        let waiting = t.begin(call);
        assert_eq!(waker.call(m.wake(word, 1)), 1);
        assert_eq!(waiting.finish(), 0);
    }
}

fn woken_wait_returns_0_whatever_the_word_holds(m: &Machine) {
    let ([t, waker], word) = (m.threads(), m.word(7));
    let waiting = t.begin(m.wait(word, 7));
    word.set(8);
    waiting.stays_asleep();
    word.set(7);
    assert_eq!(waker.call(m.wake(word, 1)), 1);
    assert_eq!(waiting.finish(), 0);
}

fn bitset_0_is_einval_before_the_value_is_compared(m: &Machine) {
    let (t, word) = (m.thread(), m.word(7));
    assert_eq!(t.call(m.wait_bitset(word, 7, 0)), EINVAL);
    assert_eq!(t.call(m.wait_bitset(word, 8, 0)), EINVAL);
}

fn plain_wait_has_no_bitset(m: &Machine) {
    let ([t, waker], word) = (m.threads(), m.word(0));
    // The operation ignores the sixth argument.
    let waiting = t.begin(m.wait(word, 0).value3(0));
    assert_eq!(waker.call(m.wake_bitset(word, 1, 1 << 31)), 1);
    assert_eq!(waiting.finish(), 0);
}

fn second_address_is_ignored(m: &Machine) {
    let ([t, waker], word) = (m.threads(), m.word(0));
    let waiting = t.begin(m.wait(word, 0).address2(3u64));
    assert_eq!(waker.call(m.wake(word, 1).address2(3u64)), 1);
    assert_eq!(waiting.finish(), 0);
}

on_every_machine![
    wait_returns_eagain_when_the_word_differs_in_any_bit,
    wait_returns_0_when_it_is_woken,
    woken_wait_returns_0_whatever_the_word_holds,
    bitset_0_is_einval_before_the_value_is_compared,
    plain_wait_has_no_bitset,
    second_address_is_ignored,
];
