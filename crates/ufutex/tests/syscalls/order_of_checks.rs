//! The error of a call with several errors: the order of the checks of futex(2). Those of the other calls are tested in
//! their own modules.

use crate::call::Call;
use crate::calls::FUTEX_LOCK_PI2;
use crate::common::errno::{EAGAIN, EFAULT, EINVAL, ENOSYS};
use crate::common::libc;
use crate::machine::Machine;
use crate::on_every_machine;

/// An address that is not mapped.
const NOWHERE: u64 = 8;
/// An address outside of user space.
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

/// A call with an invalid address, bitset and second address.
fn wrong(m: &Machine, op: i32) -> Call {
    m.futex(KERNELS + 1, op, 0)
}

fn timeout_is_checked_first_if_the_operation_has_one(m: &Machine) {
    let t = m.thread();
    for op in WITH_TIMEOUT {
        for call in [wrong(m, op), wrong(m, op).realtime()] {
            assert_eq!(t.call(call.timeout(NOWHERE)), EFAULT, "{op}");
            assert_eq!(t.call(call.timeout(KERNELS)), EFAULT, "{op}");
            assert_eq!(t.call(call.timeout(m.raw_time(0, 1_000_000_000))), EINVAL, "{op}");
        }
    }
    // An invalid timeout is EINVAL. With a valid one, or none, the clock flag is ENOSYS.
    for op in [libc::FUTEX_WAIT, libc::FUTEX_LOCK_PI] {
        let call = wrong(m, op).realtime();
        assert_eq!(t.call(call.timeout(m.raw_time(-1, 0))), EINVAL, "{op}");
        assert_eq!(t.call(call.timeout(m.past())), ENOSYS, "{op}");
        assert_eq!(t.call(call), ENOSYS, "{op}");
    }
}

fn clock_is_checked_before_everything_else(m: &Machine) {
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
            // An unknown operation does not read the timeout.
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

fn bitset_and_counts_are_checked_before_the_address(m: &Machine) {
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
    // The encoded operation of a wake_op is checked after the addresses.
    assert_eq!(t.call(m.wake_op(KERNELS, word, [1, 1], 7 << 28)), EFAULT);
    assert_eq!(t.call(m.wake_op(word, KERNELS, [1, 1], 7 << 28)), EFAULT);
    assert_eq!(t.call(m.wake_op(word, word.0 + 1, [1, 1], 7 << 28)), EINVAL);
}

fn second_address_of_wait_requeue_pi_is_checked_first(m: &Machine) {
    let (t, word) = (m.thread(), m.word(0));
    assert_eq!(t.call(m.wait_requeue_pi(word.0 + 1, 0, KERNELS)), EFAULT);
    assert_eq!(t.call(m.wait_requeue_pi(KERNELS, 0, word.0 + 1)), EINVAL);
    assert_eq!(t.call(m.cmp_requeue_pi(word.0 + 1, 0, KERNELS, 0)), EINVAL);
    assert_eq!(t.call(m.cmp_requeue_pi(KERNELS, 0, word.0 + 1, 0)), EFAULT);
}

fn address_is_checked_before_the_value(m: &Machine) {
    let (t, word) = (m.thread(), m.word(0));
    assert_eq!(t.call(m.wait(word.0 + 1, 1)), EINVAL);
    assert_eq!(t.call(m.wait(KERNELS, 1)), EFAULT);
    assert_eq!(t.call(m.cmp_requeue(word, 1, word.0 + 1, 0, 0)), EINVAL);
    assert_eq!(t.call(m.cmp_requeue(word, 1, KERNELS, 0, 0)), EFAULT);
}

fn value_is_checked_before_an_expired_deadline(m: &Machine) {
    let (t, word) = (m.thread(), m.word(0));
    assert_eq!(t.call(m.wait(word, 1).timeout(m.raw_time(0, 0))), EAGAIN);
    assert_eq!(t.call(m.wait_bitset(word, 1, 1).timeout(m.past())), EAGAIN);
    assert_eq!(t.call(m.wait_requeue_pi(word, 1, m.word(0)).timeout(m.past())), EAGAIN);
}

on_every_machine![
    timeout_is_checked_first_if_the_operation_has_one,
    clock_is_checked_before_everything_else,
    unknown_operation_is_enosys,
    operation_is_32_bits_of_its_register,
    bitset_and_counts_are_checked_before_the_address,
    second_address_of_wait_requeue_pi_is_checked_first,
    address_is_checked_before_the_value,
    value_is_checked_before_an_expired_deadline,
];
