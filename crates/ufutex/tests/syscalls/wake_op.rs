//! `FUTEX_WAKE_OP`, which changes one word and wakes waiters of two.

use crate::calls::{ALL, WAITERS, begin_all};
use crate::common::arena::Rights;
use crate::common::errno::{EFAULT, EINVAL, ENOSYS};
use crate::machine::{Machine, Thread};
use crate::on_every_machine;

const SET: u32 = 0;
const ADD: u32 = 1;
const OR: u32 = 2;
const ANDN: u32 = 3;
const XOR: u32 = 4;
/// `FUTEX_OP_ARG_SHIFT`: the operation's argument is `1 << argument`.
const SHIFT: u32 = 8;

const EQ: u32 = 0;
const NE: u32 = 1;
const LT: u32 = 2;
const LE: u32 = 3;
const GT: u32 = 4;
const GE: u32 = 5;

/// The sixth argument: the encoded operation and comparison.
fn op(op: u32, argument: u32, compare: u32, with: u32) -> u32 {
    op << 28 | compare << 24 | (argument & 0xfff) << 12 | with & 0xfff
}

/// The value of a word that held `before`, after the operation.
fn result(m: &Machine, before: u32, encoded: u32) -> u32 {
    let [at, word] = m.words(before);
    assert_eq!(m.thread().call(m.wake_op(at, word, [1, 1], encoded)), 0);
    assert_eq!(at.get(), before, "the first word is not touched");
    word.get()
}

fn each_operation_changes_the_second_word(m: &Machine) {
    assert_eq!(result(m, 0b1100, op(SET, 0b1010, EQ, 0)), 0b1010);
    assert_eq!(result(m, 0b1100, op(ADD, 0b1010, EQ, 0)), 0b10110);
    assert_eq!(result(m, 0b1100, op(OR, 0b1010, EQ, 0)), 0b1110);
    assert_eq!(result(m, 0b1100, op(ANDN, 0b1010, EQ, 0)), 0b0100);
    assert_eq!(result(m, 0b1100, op(XOR, 0b1010, EQ, 0)), 0b0110);
    assert_eq!(result(m, u32::MAX, op(ADD, 2, EQ, 0)), 1, "it wraps");
}

fn arguments_of_12_bits_are_signed(m: &Machine) {
    assert_eq!(result(m, 10, op(SET, 0x800, EQ, 0)), 0xffff_f800);
    assert_eq!(result(m, 10, op(SET, 0x7ff, EQ, 0)), 0x7ff);
    assert_eq!(result(m, 10, op(ADD, 0xfff, EQ, 0)), 9);
    assert_eq!(result(m, 0, op(OR, 0xfff, EQ, 0)), u32::MAX);
}

fn argument_can_be_a_power_of_two(m: &Machine) {
    assert_eq!(result(m, 0, op(SET | SHIFT, 0, EQ, 1)), 1);
    assert_eq!(result(m, 0, op(SET | SHIFT, 31, EQ, 1)), 1 << 31);
    assert_eq!(result(m, 1, op(ADD | SHIFT, 4, EQ, 0)), 17);
}

fn shift_is_taken_modulo_32(m: &Machine) {
    assert_eq!(result(m, 0, op(SET | SHIFT, 32, EQ, 1)), 1);
    assert_eq!(result(m, 0, op(SET | SHIFT, 33, EQ, 1)), 2);
    assert_eq!(result(m, 0, op(SET | SHIFT, 0xfff, EQ, 1)), 1 << 31);
}

fn bad_operation_is_enosys_and_changes_nothing(m: &Machine) {
    let (t, [at, word]) = (m.thread(), m.words(7));
    for bad in [5, 6, 7, 5 | SHIFT, 7 | SHIFT] {
        assert_eq!(t.call(m.wake_op(at, word, [1, 1], op(bad, 1, EQ, 0))), ENOSYS, "{bad}");
        assert_eq!(word.get(), 7);
    }
}

fn bad_comparison_is_enosys_after_the_word_was_changed(m: &Machine) {
    let ([t, w], [at, word]) = (m.threads(), m.words(7));
    let waiting = w.begin(m.wait(at, 7));
    for bad in 6..16 {
        word.set(7);
        assert_eq!(t.call(m.wake_op(at, word, [1, 1], op(SET, bad, bad, 0))), ENOSYS, "{bad}");
        assert_eq!(word.get(), bad);
    }
    waiting.stays_asleep();
    assert_eq!(t.call(m.wake(at, 1)), 1);
    assert_eq!(waiting.finish(), 0);
}

/// Whether the comparison of a word that held `before` is true, which shows in a wake of the second word.
fn wakes_the_second(m: &Machine, before: u32, compare: u32, with: u32) -> bool {
    let ([t, w], [at, word]) = (m.threads(), m.words(before));
    let waiting = w.begin(m.wait(word, before));
    let woken = t.call(m.wake_op(at, word, [1, 1], op(ADD, 0, compare, with)));
    assert_eq!(woken + t.call(m.wake(word, 1)), 1);
    assert_eq!(waiting.finish(), 0);
    woken == 1
}

fn each_comparison_uses_the_old_value_and_is_signed(m: &Machine) {
    let minus = |n: u32| n.wrapping_neg();
    let cases = [(5, 5, [true, false, false, true, false, true]), (4, 5, [false, true, true, true, false, false])];
    let more = [
        (6, 5, [false, true, false, false, true, true]),
        (minus(1), 0, [false, true, true, true, false, false]),
        (minus(1), minus(1), [true, false, false, true, false, true]),
        (minus(2048), 0x800, [true, false, false, true, false, true]),
        (1 << 31, minus(5), [false, true, true, true, false, false]),
    ];
    for (before, with, expected) in cases.into_iter().chain(more) {
        let seen = [EQ, NE, LT, LE, GT, GE].map(|compare| wakes_the_second(m, before, compare, with));
        assert_eq!(seen, expected, "{before:#x} with {with:#x}");
    }
}

fn wake_op_returns_the_sum(m: &Machine) {
    let (t, [at, word]) = (m.thread(), m.words(0));
    let first: [Thread; 3] = m.threads();
    let second: [Thread; 3] = m.threads();
    let at_first = begin_all(&first, |_| m.wait(at, 0));
    let at_second = begin_all(&second, |_| m.wait(word, 0));
    assert_eq!(t.call(m.wake_op(at, word, [1, 2], op(SET, 1, EQ, 0))), 3);
    assert_eq!(t.call(m.wake_op(at, word, [ALL, ALL], op(SET, 1, EQ, 0))), 2, "the word held 1: only the first");
    assert_eq!(t.call(m.wake(word, ALL)), 1);
    for waiting in at_first.into_iter().chain(at_second) {
        assert_eq!(waiting.finish(), 0);
    }
}

fn count_of_0_or_less_wakes_one(m: &Machine) {
    for count in [0, -1, i32::MIN] {
        let ([t, a, b], [at, word]) = (m.threads(), m.words(0));
        let (first, second) = (a.begin(m.wait(at, 0)), b.begin(m.wait(word, 0)));
        assert_eq!(t.call(m.wake_op(at, word, [count, count], op(SET, 0, EQ, 0))), 2, "{count}");
        assert_eq!((first.finish(), second.finish()), (0, 0));
    }
}

fn both_words_may_be_one(m: &Machine) {
    let ([t, a, b, c], word) = (m.threads(), m.word(0));
    let waiting = [a.begin(m.wait(word, 0)), b.begin(m.wait(word, 0)), c.begin(m.wait(word, 0))];
    assert_eq!(t.call(m.wake_op(word, word, [1, 1], op(SET, 9, EQ, 0))), 2);
    assert_eq!(word.get(), 9);
    let [first, second, third] = waiting;
    assert_eq!((first.finish(), second.finish()), (0, 0));
    third.stays_asleep();
    assert_eq!(t.call(m.wake(word, ALL)), 1);
    assert_eq!(third.finish(), 0);
}

fn wake_op_wakes_every_bitset(m: &Machine) {
    let ([t, a, b], [at, word]) = (m.threads(), m.words(0));
    let (first, second) = (a.begin(m.wait_bitset(at, 0, 1)), b.begin(m.wait_bitset(word, 0, 1 << 31)));
    assert_eq!(t.call(m.wake_op(at, word, [1, 1], op(SET, 0, EQ, 0))), 2);
    assert_eq!((first.finish(), second.finish()), (0, 0));
}

fn second_word_must_be_writable(m: &Machine) {
    let ([t, w], at) = (m.threads(), m.word(0));
    let waiting = w.begin(m.wait(at, 0));
    for page in [m.page(Rights::Read), m.page(Rights::Nothing), m.object_page(Rights::Read)] {
        assert_eq!(t.call(m.wake_op(at, page, [1, 1], op(ADD, 1, EQ, 0))), EFAULT);
    }
    assert_eq!(t.call(m.wake_op(at, 0u64, [1, 1], op(ADD, 1, EQ, 0))), EFAULT);
    waiting.stays_asleep();
    assert_eq!(t.call(m.wake(at, 1)), 1);
    assert_eq!(waiting.finish(), 0);
}

fn first_word_need_not_exist_if_it_is_private(m: &Machine) {
    let (t, word) = (m.thread(), m.word(1));
    let expected = if m.is_private() { (0, 2) } else { (EFAULT, 1) };
    assert_eq!((t.call(m.wake_op(0u64, word, [1, 1], op(ADD, 1, EQ, 0))), word.get()), expected);
}

fn both_addresses_must_be_aligned(m: &Machine) {
    let (t, [at, word]) = (m.thread(), m.words(0));
    assert_eq!(t.call(m.wake_op(at.0 + 1, word, [1, 1], op(ADD, 1, EQ, 0))), EINVAL);
    assert_eq!(t.call(m.wake_op(at, word.0 + 2, [1, 1], op(ADD, 1, EQ, 0))), EINVAL);
    assert_eq!(word.get(), 0);
}

fn waiter_for_a_pi_lock_is_einval_after_the_word_was_changed(m: &Machine) {
    let ([owner, w, t], [lock, word]) = (m.threads(), m.words(0));
    assert_eq!(owner.call(m.lock_pi(lock)), 0);
    let waiting = w.begin(m.lock_pi(lock));
    assert_eq!(t.call(m.wake_op(lock, word, [1, 1], op(ADD, 1, EQ, 0))), EINVAL);
    assert_eq!(word.get(), 1);
    waiting.stays_asleep();
    assert_eq!(lock.get(), owner.tid() | WAITERS);
    assert_eq!(owner.call(m.unlock_pi(lock)), 0);
    assert_eq!(waiting.finish(), 0);
}

fn pi_waiter_on_the_second_word_is_einval_after_the_first_was_woken(m: &Machine) {
    let ([a, w, t], [at, from, lock]) = (m.threads(), m.words(0));
    let first = a.begin(m.wait(at, 0));
    let waiting = w.begin(m.wait_requeue_pi(from, 0, lock));
    assert_eq!(t.call(m.wake_op(at, from, [1, 1], op(ADD, 0, EQ, 0))), EINVAL);
    assert_eq!(first.finish(), 0);
    waiting.stays_asleep();
    assert_eq!(t.call(m.wake_op(at, from, [1, 1], op(ADD, 0, NE, 0))), 0, "the second is not looked at");
    assert_eq!(t.call(m.cmp_requeue_pi(from, 0, lock, 0)), 1);
    assert_eq!(waiting.finish(), 0);
}

on_every_machine![
    each_operation_changes_the_second_word,
    arguments_of_12_bits_are_signed,
    argument_can_be_a_power_of_two,
    shift_is_taken_modulo_32,
    bad_operation_is_enosys_and_changes_nothing,
    bad_comparison_is_enosys_after_the_word_was_changed,
    each_comparison_uses_the_old_value_and_is_signed,
    wake_op_returns_the_sum,
    count_of_0_or_less_wakes_one,
    both_words_may_be_one,
    wake_op_wakes_every_bitset,
    second_word_must_be_writable,
    first_word_need_not_exist_if_it_is_private,
    both_addresses_must_be_aligned,
    waiter_for_a_pi_lock_is_einval_after_the_word_was_changed,
    pi_waiter_on_the_second_word_is_einval_after_the_first_was_woken,
];
