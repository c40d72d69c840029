//! Timer IDs: allocated in increasing order, and restored.

use crate::common::errno::{EAGAIN, EBUSY, EFAULT, EINVAL};
use crate::common::libc;
use crate::machine::{Call, HOUR, Machine};
use crate::memory::{Event, NONE, Spec};
use crate::on_every_machine;

const MONOTONIC: i32 = libc::CLOCK_MONOTONIC;
const OFF: u64 = 0;
const ON: u64 = 1;
const GET: u64 = 2;

fn ids_are_allocated_in_order_from_0(m: &Machine) {
    for expected in 0..100 {
        assert_eq!(m.create(MONOTONIC, NONE), expected);
    }
}

fn deleted_id_is_not_allocated_next(m: &Machine) {
    for expected in 0..100 {
        let timer = m.create(MONOTONIC, NONE);
        assert_eq!(timer, expected);
        assert_eq!(m.delete(timer), 0);
    }
}

fn create_that_fails_late_consumes_an_id(m: &Machine) {
    let good = m.event(NONE);
    assert_eq!(m.raw_create(MONOTONIC, m.event(Event::signal(0, 0)), m.bytes(4)), EINVAL);
    assert_eq!(m.create(MONOTONIC, NONE), 1);
    assert_eq!(m.raw_create(MONOTONIC, good, m.nothing()), EFAULT);
    assert_eq!(m.raw_create(MONOTONIC, good, m.read_only()), EFAULT);
    assert_eq!(m.create(MONOTONIC, NONE), 4);
    // The failed calls left no timer.
    for id in [0, 2, 3] {
        assert_eq!(m.delete(id), EINVAL);
    }
}

fn create_that_fails_early_consumes_no_id(m: &Machine) {
    assert_eq!(m.raw_create(12, m.event(NONE), m.bytes(4)), EINVAL);
    assert_eq!(m.raw_create(libc::CLOCK_MONOTONIC_RAW, m.event(NONE), m.bytes(4)), -(libc::EOPNOTSUPP as isize));
    assert_eq!(m.raw_create(MONOTONIC, m.nothing(), m.bytes(4)), EFAULT);
    assert_eq!(m.create(MONOTONIC, NONE), 0);
    let filling = m.system().leave_no_room() as i32;
    for _ in 0..3 {
        assert_eq!(m.try_create(MONOTONIC, Some(NONE)), EAGAIN);
        assert_eq!(m.try_create(MONOTONIC, Some(Event::signal(0, 0))), EAGAIN);
    }
    m.system().leave_room();
    assert_eq!(m.create(MONOTONIC, NONE), filling + 1);
}

fn unused_ids_are_einval(m: &Machine) {
    let timer = m.create(MONOTONIC, NONE);
    assert_eq!(m.delete(timer), 0);
    for id in [timer, timer + 1, 1000, i32::MAX, -1, i32::MIN] {
        assert_eq!(m.try_settime(id, 0, Spec::once(HOUR)), EINVAL, "{id}");
        assert_eq!(m.raw_gettime(id, m.bytes(32)), EINVAL, "{id}");
        assert_eq!(m.overrun(id), EINVAL, "{id}");
        assert_eq!(m.delete(id), EINVAL, "{id}");
    }
}

fn id_is_32_bits_of_its_register(m: &Machine) {
    let timer = m.create(MONOTONIC, NONE);
    let raw = |call, id: u64| m.call(call, [id, m.bytes(32), 0, 0, 0, 0]);
    for upper in [0, 1 << 32, u64::MAX << 32] {
        assert_eq!(raw(Call::Gettime, timer as u64 | upper), 0);
        assert_eq!(raw(Call::Getoverrun, timer as u64 | upper), 0);
    }
    assert_eq!(raw(Call::Delete, timer as u64 | 1 << 32), 0);
    assert_eq!(raw(Call::Delete, timer as u64), EINVAL);
}

fn mode_of_restoring_is_set_and_read(m: &Machine) {
    assert_eq!(m.prctl(GET), 0);
    for _ in 0..2 {
        assert_eq!(m.prctl(ON), 0);
    }
    assert_eq!(m.prctl(GET), 1);
    assert_eq!(m.prctl(OFF), 0);
    assert_eq!(m.prctl(GET), 0);
    for mode in [3, u64::MAX, 1 << 32, 1 << 32 | 1] {
        assert_eq!(m.prctl(mode), EINVAL, "{mode:#x}");
    }
    assert_eq!(m.prctl(GET), 0);
}

fn mode_of_restoring_takes_no_further_arguments(m: &Machine) {
    for at in 2..5 {
        for mode in [OFF, ON, GET] {
            let mut args = [77, mode, 0, 0, 0, 0];
            args[at] = 1;
            assert_eq!(m.call(Call::Prctl, args), EINVAL, "argument {at} with {mode}");
        }
    }
    assert_eq!(m.prctl(GET), 0);
    // prctl(2) has five arguments, so the sixth register is ignored.
    assert_eq!(m.call(Call::Prctl, [77, GET, 0, 0, 0, 1]), 0);
}

fn restored_timer_has_the_requested_id(m: &Machine) {
    assert_eq!(m.prctl(ON), 0);
    for id in [5, 0, 1_000_000, 4095, i32::MAX, i32::MAX - 1, 7] {
        assert_eq!(m.restore(id, Some(NONE)), 0);
        m.set(id, Spec::once(HOUR));
        assert_eq!(m.restore(id, Some(NONE)), EBUSY);
        assert_eq!(m.restore(id, None), EBUSY);
    }
    assert_eq!(m.delete(5), 0);
    assert_eq!(m.restore(5, Some(NONE)), 0);
    assert_eq!(m.get(5), Spec::default());
    assert!(m.get(7).value() > HOUR / 2);
}

fn counter_continues_after_the_restored_id(m: &Machine) {
    let restore = |id| {
        assert_eq!((m.prctl(ON), m.restore(id, Some(NONE)), m.prctl(OFF)), (0, 0, 0));
    };
    restore(41);
    assert_eq!(m.create(MONOTONIC, NONE), 42);
    // A lower ID moves the counter back. IDs that are in use are skipped.
    restore(40);
    assert_eq!(m.create(MONOTONIC, NONE), 43);
    restore(3);
    assert_eq!(m.create(MONOTONIC, NONE), 4);
    restore(i32::MAX);
    assert_eq!(m.create(MONOTONIC, NONE), 0);
    assert_eq!(m.create(MONOTONIC, NONE), 1);
    assert_eq!(m.create(MONOTONIC, NONE), 2);
    assert_eq!(m.create(MONOTONIC, NONE), 5);
}

fn counter_stays_when_the_id_is_not_available(m: &Machine) {
    assert_eq!(m.prctl(ON), 0);
    assert_eq!(m.restore(10, Some(NONE)), 0);
    assert_eq!(m.restore(5, Some(NONE)), 0);
    assert_eq!(m.restore(10, Some(NONE)), EBUSY);
    assert_eq!(m.restore(-1, Some(NONE)), EINVAL);
    assert_eq!(m.raw_create(MONOTONIC, m.event(NONE), m.nothing()), EFAULT);
    assert_eq!(m.prctl(OFF), 0);
    assert_eq!(m.create(MONOTONIC, NONE), 6);
}

/// The ID has been allocated before the failure.
fn counter_moves_although_restoring_fails_late(m: &Machine) {
    assert_eq!(m.prctl(ON), 0);
    assert_eq!(m.restore(20, Some(Event::signal(0, 0))), EINVAL);
    assert_eq!(m.delete(20), EINVAL);
    assert_eq!(m.prctl(OFF), 0);
    assert_eq!(m.create(MONOTONIC, NONE), 21);
    assert_eq!(m.prctl(ON), 0);
    // The memory for the ID is readable but not writable.
    assert_eq!(m.raw_create(MONOTONIC, m.event(NONE), m.read_only()), EFAULT);
    assert_eq!(m.delete(0), EINVAL);
    assert_eq!(m.prctl(OFF), 0);
    assert_eq!(m.create(MONOTONIC, NONE), 1);
}

fn ids_that_cannot_be_restored_are_einval(m: &Machine) {
    assert_eq!(m.prctl(ON), 0);
    for id in [-1, i32::MIN, i32::MIN + 1] {
        assert_eq!(m.restore(id, Some(NONE)), EINVAL, "{id}");
    }
    assert_eq!(m.raw_create(MONOTONIC, m.event(NONE), 0), EFAULT);
    assert_eq!(m.raw_create(MONOTONIC, m.event(NONE), m.before_nothing(2)), EFAULT);
}

/// Restoring checks the ID after the clock and before the sigevent.
fn restoring_checks_the_id_first(m: &Machine) {
    let bad = m.event(Event::signal(0, 0));
    assert_eq!(m.prctl(ON), 0);
    assert_eq!(m.raw_create(12, bad, m.nothing()), EINVAL);
    assert_eq!(m.raw_create(libc::CLOCK_MONOTONIC_RAW, bad, m.nothing()), -(libc::EOPNOTSUPP as isize));
    assert_eq!(m.raw_create(MONOTONIC, bad, m.nothing()), EFAULT);
    assert_eq!(m.restore(9, Some(NONE)), 0);
    assert_eq!(m.restore(9, Some(Event::signal(0, 0))), EBUSY);
}

/// Without the mode of restoring, the memory for the ID is not read.
fn memory_for_the_id_is_ignored_without_the_mode(m: &Machine) {
    let id = m.bytes(4);
    m.put_i32(id, 30);
    assert_eq!(m.raw_create(MONOTONIC, m.event(NONE), id), 0);
    assert_eq!(m.get_i32(id), 0);
}

on_every_machine![
    ids_are_allocated_in_order_from_0,
    deleted_id_is_not_allocated_next,
    create_that_fails_late_consumes_an_id,
    create_that_fails_early_consumes_no_id,
    unused_ids_are_einval,
    id_is_32_bits_of_its_register,
    mode_of_restoring_is_set_and_read,
    mode_of_restoring_takes_no_further_arguments,
    restored_timer_has_the_requested_id,
    counter_continues_after_the_restored_id,
    counter_stays_when_the_id_is_not_available,
    counter_moves_although_restoring_fails_late,
    ids_that_cannot_be_restored_are_einval,
    restoring_checks_the_id_first,
    memory_for_the_id_is_ignored_without_the_mode,
];
