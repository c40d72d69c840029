//! When several things are wrong with a call, which one is told. Here for futex(2); of the other calls beside themselves.

use crate::call::Call;
use crate::calls::FUTEX_LOCK_PI2;
use crate::common::errno::{EAGAIN, EFAULT, EINVAL, ENOSYS};
use crate::machine::Machine;
use crate::on_every_machine;

/// An address that is not there.
const NOWHERE: u64 = 8;
/// An address that no program may name.
const KERNELS: u64 = 1 << 63;

const WITH_TIMEOUT: [i32; 5] =
    [libc::FUTEX_WAIT, libc::FUTEX_WAIT_BITSET, libc::FUTEX_LOCK_PI, FUTEX_LOCK_PI2, libc::FUTEX_WAIT_REQUEUE_PI];

const WITHOUT_TIMEOUT: [i32; 8] = [
    libc::FUTEX_WAKE,
    libc::FUTEX_REQUEUE,
    libc::FUTEX_CMP_REQUEUE,
    libc::FUTEX_WAKE_OP,
    libc::FUTEX_UNLOCK_PI,
    libc::FUTEX_TRYLOCK_PI,
    libc::FUTEX_WAKE_BITSET,
    libc::FUTEX_CMP_REQUEUE_PI,
];

/// A call of which everything is wrong that can be: address, bitset, second address.
fn wrong(m: &Machine, op: i32) -> Call {
    m.futex(KERNELS + 1, op, 0)
}

fn timeout_comes_first_for_those_that_have_one(m: &Machine) {
    let t = m.thread();
    for op in WITH_TIMEOUT {
        for call in [wrong(m, op), wrong(m, op).realtime()] {
            assert_eq!(t.call(call.timeout(NOWHERE)), EFAULT, "{op}");
            assert_eq!(t.call(call.timeout(KERNELS)), EFAULT, "{op}");
            assert_eq!(t.call(call.timeout(m.raw_time(0, 1_000_000_000))), EINVAL, "{op}");
        }
    }
    // Of these two errors only one is the timeout's.
    for op in [libc::FUTEX_WAIT, libc::FUTEX_LOCK_PI] {
        let call = wrong(m, op).realtime();
        assert_eq!(t.call(call.timeout(m.raw_time(-1, 0))), EINVAL, "{op}");
        assert_eq!(t.call(call.timeout(m.past())), ENOSYS, "{op}");
        assert_eq!(t.call(call), ENOSYS, "{op}");
    }
}

fn clock_comes_before_everything_else(m: &Machine) {
    let t = m.thread();
    for op in WITHOUT_TIMEOUT.into_iter().chain([libc::FUTEX_WAIT, libc::FUTEX_LOCK_PI]) {
        assert_eq!(t.call(wrong(m, op).realtime()), ENOSYS, "{op}");
        assert_eq!(t.call(m.futex(m.word(0), op, 0).realtime()), ENOSYS, "{op}");
    }
}

fn unknown_operation_is_enosys(m: &Machine) {
    let (t, word) = (m.thread(), m.word(0));
    let bits = [1 << 10, 1 << 16, 1 << 30, i32::MIN].into_iter().map(|bit| libc::FUTEX_WAKE | bit);
    let numbers = [libc::FUTEX_FD, 14, 15, 16, 32, 64, 127].into_iter().chain(bits);
    for op in numbers {
        for call in [m.futex(word, op, 0), m.futex(word, op, 0).realtime(), wrong(m, op)] {
            assert_eq!(t.call(call), ENOSYS, "{op:#x}");
            // It has no timeout to look at.
            assert_eq!(t.call(call.timeout(NOWHERE)), ENOSYS, "{op:#x}");
        }
    }
}

fn operation_is_32_bits_of_its_register(m: &Machine) {
    let (t, word) = (m.thread(), m.word(0));
    let wait = m.wait(word, 1);
    assert_eq!(t.call(wait.argument(1, wait.args[1] | 1 << 32)), EAGAIN);
    assert_eq!(t.call(wait.argument(2, 1 | 1 << 32)), EAGAIN, "so is the value");
    let wake = m.wake_bitset(word, 1, 1);
    assert_eq!(t.call(wake.argument(5, 1 << 32)), EINVAL, "and the bitset");
}

fn bitset_and_counts_come_before_the_address(m: &Machine) {
    let (t, word) = (m.thread(), m.word(0));
    assert_eq!(t.call(m.wait_bitset(KERNELS, 0, 0)), EINVAL);
    assert_eq!(t.call(m.wait_bitset(KERNELS, 0, 1)), EFAULT);
    assert_eq!(t.call(m.wake_bitset(KERNELS, 1, 0)), EINVAL);
    assert_eq!(t.call(m.wake_bitset(KERNELS, 1, 1)), EFAULT);
    assert_eq!(t.call(m.requeue(KERNELS, word, -1, 0)), EINVAL);
    assert_eq!(t.call(m.requeue(KERNELS, word, 0, -1)), EINVAL);
    assert_eq!(t.call(m.requeue(KERNELS, word, 0, 0)), EFAULT);
    assert_eq!(t.call(m.cmp_requeue(KERNELS, 0, word, 1, -1)), EINVAL);
    assert_eq!(t.call(m.cmp_requeue_pi(KERNELS, 0, word, 1).value(2)), EINVAL);
    assert_eq!(t.call(m.cmp_requeue_pi(KERNELS, 0, KERNELS, 1)), EINVAL);
    assert_eq!(t.call(m.cmp_requeue_pi(KERNELS, 0, word, 1)), EFAULT);
    assert_eq!(t.call(m.wait_requeue_pi(KERNELS, 0, KERNELS)), EINVAL);
    // The operation of a wake_op comes after the addresses.
    assert_eq!(t.call(m.wake_op(KERNELS, word, [1, 1], 7 << 28)), EFAULT);
    assert_eq!(t.call(m.wake_op(word, KERNELS, [1, 1], 7 << 28)), EFAULT);
    assert_eq!(t.call(m.wake_op(word, word.0 + 1, [1, 1], 7 << 28)), EINVAL);
}

fn second_address_comes_first_of_wait_requeue_pi(m: &Machine) {
    let (t, word) = (m.thread(), m.word(0));
    assert_eq!(t.call(m.wait_requeue_pi(word.0 + 1, 0, KERNELS)), EFAULT);
    assert_eq!(t.call(m.wait_requeue_pi(KERNELS, 0, word.0 + 1)), EINVAL);
    assert_eq!(t.call(m.cmp_requeue_pi(word.0 + 1, 0, KERNELS, 0)), EINVAL);
    assert_eq!(t.call(m.cmp_requeue_pi(KERNELS, 0, word.0 + 1, 0)), EFAULT);
}

fn address_comes_before_the_value(m: &Machine) {
    let (t, word) = (m.thread(), m.word(0));
    assert_eq!(t.call(m.wait(word.0 + 1, 1)), EINVAL);
    assert_eq!(t.call(m.wait(KERNELS, 1)), EFAULT);
    assert_eq!(t.call(m.cmp_requeue(word, 1, word.0 + 1, 0, 0)), EINVAL);
    assert_eq!(t.call(m.cmp_requeue(word, 1, KERNELS, 0, 0)), EFAULT);
}

fn value_comes_before_a_deadline_that_has_passed(m: &Machine) {
    let (t, word) = (m.thread(), m.word(0));
    assert_eq!(t.call(m.wait(word, 1).timeout(m.raw_time(0, 0))), EAGAIN);
    assert_eq!(t.call(m.wait_bitset(word, 1, 1).timeout(m.past())), EAGAIN);
    assert_eq!(t.call(m.wait_requeue_pi(word, 1, m.word(0)).timeout(m.past())), EAGAIN);
}

on_every_machine![
    timeout_comes_first_for_those_that_have_one,
    clock_comes_before_everything_else,
    unknown_operation_is_enosys,
    operation_is_32_bits_of_its_register,
    bitset_and_counts_come_before_the_address,
    second_address_comes_first_of_wait_requeue_pi,
    address_comes_before_the_value,
    value_comes_before_a_deadline_that_has_passed,
];
