//! timer_settime(2): its arguments and the old setting.

use std::time::Duration;

use crate::common::errno::{EFAULT, EINVAL};
use crate::common::libc;
use crate::grid::Grid;
use crate::machine::{HOUR, MS, Machine, has_clock, moved_by_namespace, now};
use crate::memory::{Event, NONE, SPEC, Spec};
use crate::on_every_machine;

const MONOTONIC: i32 = libc::CLOCK_MONOTONIC;
const CPU: i32 = libc::CLOCK_PROCESS_CPUTIME_ID;
const SIGNAL: Event = Event { notify: libc::SIGEV_SIGNAL, signal: libc::SIGUSR1, ..NONE };
const NOBODY: i32 = 999;
/// The kernel's maximum time in nanoseconds.
const LONGEST: u64 = i64::MAX as u64;

fn invalid() -> Vec<Spec> {
    let bad = [(0, 1_000_000_000), (0, -1), (0, i64::MAX), (0, i64::MIN), (-1, 0), (i64::MIN, 0), (5, 1 << 32)];
    let of_value = bad.iter().map(|&value| Spec { value, interval: (0, 0) });
    let of_interval = bad.iter().map(|&interval| Spec { value: (3600, 0), interval });
    let while_disarming = bad.iter().map(|&interval| Spec { value: (0, 0), interval });
    of_value.chain(of_interval).chain(while_disarming).collect()
}

fn setting_must_be_readable_completely(m: &Machine) {
    let timer = m.create(MONOTONIC, NONE);
    assert_eq!(m.raw_settime(timer, 0, 0, 0), EINVAL);
    assert_eq!(m.raw_settime(timer, 0, m.nothing(), 0), EFAULT);
    assert_eq!(m.raw_settime(timer, 0, 8, 0), EFAULT);
    for bytes in [8, 16, SPEC - 1] {
        assert_eq!(m.raw_settime(timer, 0, m.before_nothing(bytes), 0), EFAULT, "{bytes} bytes of it");
    }
    assert_eq!(m.raw_settime(timer, 0, m.before_nothing(SPEC), 0), 0);
    let unaligned = m.bytes(SPEC + 8) + 3;
    m.put(unaligned, &[0; SPEC as usize]);
    assert_eq!(m.raw_settime(timer, 0, unaligned, unaligned + 1), 0);
}

fn invalid_times_are_einval(m: &Machine) {
    let timer = m.create(MONOTONIC, NONE);
    m.set(timer, Spec::every(2 * HOUR, HOUR));
    for spec in invalid() {
        for flags in [0, libc::TIMER_ABSTIME] {
            assert_eq!(m.try_settime(timer, flags, spec), EINVAL, "{spec:?}");
        }
    }
    // The failed calls did not change the timer.
    let spec = m.get(timer);
    assert!(spec.value() > HOUR / 2 && spec.interval() == 2 * HOUR, "{spec:?}");
}

/// The order of the checks is: a null setting, the setting's memory, the timer.
fn setting_is_checked_before_the_timer(m: &Machine) {
    assert_eq!(m.raw_settime(NOBODY, 0, 0, m.nothing()), EINVAL);
    assert_eq!(m.raw_settime(NOBODY, 0, m.nothing(), 0), EFAULT);
    assert_eq!(m.raw_settime(-1, 0, m.nothing(), 0), EFAULT);
    assert_eq!(m.try_settime(NOBODY, 0, invalid()[0]), EINVAL);
    assert_eq!(m.try_settime(NOBODY, 0, Spec::default()), EINVAL);
    // The memory for the old setting is accessed last.
    assert_eq!(m.raw_settime(NOBODY, 0, m.spec(Spec::default()), m.nothing()), EINVAL);
}

/// The fault occurs after the timer has been set.
fn timer_is_set_although_the_old_setting_faults(m: &Machine) {
    let timer = m.create(MONOTONIC, SIGNAL);
    for place in [m.nothing(), m.read_only(), 8, m.before_read_only(SPEC - 8)] {
        assert_eq!(m.raw_settime(timer, 0, m.spec(Spec::every(MS, HOUR)), place), EFAULT);
        assert_eq!(m.get(timer).interval(), MS);
        assert_eq!(m.raw_settime(timer, 0, m.spec(Spec::default()), place), EFAULT);
        assert_eq!(m.get(timer), Spec::default());
    }
}

fn old_setting_may_overwrite_the_new_one(m: &Machine) {
    let timer = m.create(MONOTONIC, NONE);
    m.set(timer, Spec::every(3 * HOUR, 2 * HOUR));
    let at = m.spec(Spec::every(2 * MS, HOUR));
    assert_eq!(m.raw_settime(timer, 0, at, at), 0);
    let old = m.get_spec(at);
    assert!(old.value() > HOUR && old.value() <= 2 * HOUR, "{old:?}");
    assert_eq!(old.interval(), 3 * HOUR);
    assert_eq!(m.get(timer).interval(), 2 * MS);
}

fn old_setting_has_the_remaining_time(m: &Machine) {
    for event in [NONE, SIGNAL] {
        let timer = m.create(MONOTONIC, event);
        assert_eq!(m.exchange(timer, Spec::every(5 * MS, HOUR)), Spec::default());
        let begin = now(MONOTONIC);
        m.set_at(timer, Spec::every(7 * HOUR, begin + HOUR));
        let old = m.exchange(timer, Spec::once(2 * HOUR));
        let end = now(MONOTONIC);
        assert!(old.value() <= HOUR && old.value() >= HOUR - (end - begin), "{old:?}");
        assert_eq!(old.interval(), 7 * HOUR);
        let old = m.exchange(timer, Spec::once(HOUR));
        assert!(old.value() > HOUR && old.interval().is_zero(), "{old:?}");
    }
}

fn unknown_flags_are_ignored(m: &Machine) {
    let timer = m.create(MONOTONIC, NONE);
    for flags in [0, 2, 4, -2, i32::MIN] {
        let begin = now(MONOTONIC);
        assert_eq!(m.try_settime(timer, flags, Spec::once(HOUR)), 0);
        let value = m.get(timer).value();
        assert!(value <= HOUR && value >= HOUR - (now(MONOTONIC) - begin), "flags {flags}: {value:?}");
    }
    for flags in [1, 3, -1, i32::MAX] {
        let at = now(MONOTONIC) + HOUR;
        assert_eq!(m.try_settime(timer, flags, Spec::once(at)), 0);
        let value = m.get(timer).value();
        assert!(value <= HOUR && now(MONOTONIC) + value >= at, "flags {flags}: {value:?}");
    }
}

fn flags_are_32_bits_of_their_register(m: &Machine) {
    let timer = m.create(MONOTONIC, NONE);
    let at = m.spec(Spec::once(now(MONOTONIC) + HOUR));
    assert_eq!(m.call(crate::machine::Call::Settime, [timer as u64, 5 << 32 | 1, at, 0, 0, 0]), 0);
    assert!(m.get(timer).value() <= HOUR);
}

fn value_of_0_disarms_even_with_an_interval(m: &Machine) {
    for (clock, event) in
        [(MONOTONIC, SIGNAL), (CPU, SIGNAL), (CPU, NONE)].into_iter().filter(|&(clock, _)| has_clock(clock))
    {
        let timer = m.create(clock, event);
        for flags in [0, libc::TIMER_ABSTIME] {
            m.set(timer, Spec::every(2 * HOUR, HOUR));
            assert_eq!(m.try_settime(timer, flags, Spec::every(5 * MS, Duration::ZERO)), 0);
            assert_eq!(m.get(timer), Spec::default());
            assert_eq!(m.exchange(timer, Spec::default()), Spec::default());
        }
    }
    m.takes_nothing();
}

/// The disarmed timer has no interval any more, but still shows the time until its former deadline.
fn disarmed_sigev_none_timer_still_shows_remaining_time(m: &Machine) {
    for clock in [libc::CLOCK_REALTIME, MONOTONIC, libc::CLOCK_BOOTTIME, libc::CLOCK_TAI] {
        let timer = m.create(clock, NONE);
        let at = now(clock) + HOUR;
        m.set_at(timer, Spec::every(2 * HOUR, at));
        m.set(timer, Spec::every(MS, Duration::ZERO));
        for _ in 0..2 {
            let begin = now(clock);
            let spec = m.get(timer);
            assert!(begin + spec.value() <= at && at <= now(clock) + spec.value(), "clock {clock}: {spec:?}");
            assert_eq!(spec.interval(), Duration::ZERO);
            let old = m.exchange(timer, Spec::default());
            assert!(old.value() <= spec.value() && old.value() > HOUR / 2, "{old:?}");
        }
        m.set(timer, Spec::every(HOUR, MS));
        m.set(timer, Spec::default());
        m.until("the end", || (m.get(timer) == Spec::default()).then_some(()));
    }
    m.takes_nothing();
}

/// A timer_gettime(2) before the disarming has moved the timer to its next deadline, which it then keeps.
fn disarmed_sigev_none_timer_keeps_the_deadline_of_the_last_gettime(m: &Machine) {
    let timer = m.create(MONOTONIC, NONE);
    let grid = Grid::long_ago(MONOTONIC, 1);
    m.set_at(timer, grid.spec());
    m.set(timer, Spec::default());
    assert_eq!(m.get(timer), Spec::default());
    m.set_at(timer, grid.spec());
    let begin = now(MONOTONIC);
    let old = m.exchange(timer, Spec::default());
    let read = now(MONOTONIC);
    let spec = m.get(timer);
    let end = now(MONOTONIC);
    grid.is_next(old.value(), begin, read);
    // The timer keeps that deadline, and has no further one after it.
    assert!(spec.value() <= old.value() && spec.value() + (end - begin) >= old.value(), "{spec:?} after {old:?}");
    assert_eq!((old.interval(), spec.interval()), (grid.interval, Duration::ZERO));
}

fn one_nanosecond_is_valid(m: &Machine) {
    let timer = m.create(MONOTONIC, SIGNAL);
    m.set(timer, Spec::once(Duration::from_nanos(1)));
    assert_eq!(m.take().id, timer);
    m.set_at(timer, Spec::once(Duration::from_nanos(1)));
    assert_eq!(m.take().id, timer);
}

/// Longer times saturate at the maximum time.
fn huge_times_saturate(m: &Machine) {
    let longest = Duration::from_nanos(LONGEST);
    let moved = moved_by_namespace();
    for clock in [libc::CLOCK_MONOTONIC, libc::CLOCK_REALTIME, CPU].into_iter().filter(|&clock| has_clock(clock)) {
        for event in [NONE, SIGNAL] {
            let timer = m.create(clock, event);
            // A relative timer on the realtime clock runs on the monotonic clock.
            for (flags, counts) in [(0, true), (1, false)] {
                let runs_by = if clock == libc::CLOCK_REALTIME && counts { MONOTONIC } else { clock };
                for (seconds, nanoseconds) in [(i64::MAX, 999_999_999), (1 << 40, 0), (9_223_372_036, 0)] {
                    let most = (seconds, nanoseconds);
                    let begin = now(runs_by);
                    assert_eq!(m.try_settime(timer, flags, Spec { value: most, interval: most }), 0);
                    let spec = m.get(timer);
                    let end = now(runs_by);
                    assert_eq!(spec.interval(), longest, "clock {clock}, {seconds} s");
                    let value = spec.value();
                    // A relative CPU time is not reduced by the current time of the clock.
                    let since = if clock == CPU && counts { begin } else { Duration::ZERO };
                    assert!(
                        value <= longest - (begin - since) && value + moved >= longest - (end - since),
                        "clock {clock}, flags {flags}, {seconds} s: {value:?}, between {begin:?} and {end:?}"
                    );
                }
            }
        }
    }
    m.takes_nothing();
}

fn longest_interval_that_fits_is_kept(m: &Machine) {
    let timer = m.create(MONOTONIC, NONE);
    let interval = (9_223_372_035, 999_999_999);
    assert_eq!(m.try_settime(timer, 0, Spec { value: (3600, 0), interval }), 0);
    assert_eq!(m.get(timer).interval, interval);
}

on_every_machine![
    setting_must_be_readable_completely,
    invalid_times_are_einval,
    setting_is_checked_before_the_timer,
    timer_is_set_although_the_old_setting_faults,
    old_setting_may_overwrite_the_new_one,
    old_setting_has_the_remaining_time,
    unknown_flags_are_ignored,
    flags_are_32_bits_of_their_register,
    value_of_0_disarms_even_with_an_interval,
    disarmed_sigev_none_timer_still_shows_remaining_time,
    disarmed_sigev_none_timer_keeps_the_deadline_of_the_last_gettime,
    one_nanosecond_is_valid,
    huge_times_saturate,
    longest_interval_that_fits_is_kept,
];
