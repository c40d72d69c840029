//! timer_gettime(2).

use std::time::Duration;

use crate::common::errno::{EFAULT, EINVAL};
use crate::common::libc;
use crate::grid::Grid;
use crate::machine::{HOUR, MS, Machine, has_clock, now};
use crate::memory::{Event, NONE, SPEC, Spec};
use crate::{on_every_machine, on_machines_of_one_thread};

const MONOTONIC: i32 = libc::CLOCK_MONOTONIC;
const CLOCKS: [i32; 4] = [libc::CLOCK_REALTIME, libc::CLOCK_MONOTONIC, libc::CLOCK_BOOTTIME, libc::CLOCK_TAI];

fn signal() -> Event {
    Event::signal(libc::SIGUSR1, 0)
}

fn place_for_the_setting_must_be_writable(m: &Machine) {
    let timer = m.create(MONOTONIC, NONE);
    for place in [0, m.nothing(), m.read_only(), m.before_read_only(SPEC - 1), u64::MAX - 7] {
        assert_eq!(m.raw_gettime(timer, place), EFAULT, "{place:#x}");
        assert_eq!(m.raw_gettime(timer + 1, place), EINVAL, "{place:#x}");
    }
    assert_eq!(m.raw_gettime(timer, m.bytes(SPEC + 8) + 1), 0);
}

fn timer_that_was_never_set_is_disarmed(m: &Machine) {
    for clock in CLOCKS.into_iter().chain([libc::CLOCK_PROCESS_CPUTIME_ID]).filter(|&clock| has_clock(clock)) {
        for event in [NONE, signal()] {
            let timer = m.create(clock, event);
            assert_eq!(m.get(timer), Spec::default());
        }
    }
}

fn remaining_time_decreases_to_the_deadline(m: &Machine) {
    for clock in CLOCKS {
        for event in [NONE, signal()] {
            let timer = m.create(clock, event);
            let at = now(clock) + HOUR;
            m.set_at(timer, Spec::every(3 * MS, at));
            for _ in 0..3 {
                let begin = now(clock);
                let spec = m.get(timer);
                let end = now(clock);
                assert!(begin + spec.value() <= at && at <= end + spec.value(), "clock {clock}: {spec:?}");
                assert_eq!(spec.interval(), 3 * MS);
                m.pause(MS);
            }
        }
    }
}

fn remaining_time_of_a_relative_timer_decreases(m: &Machine) {
    for clock in CLOCKS {
        let timer = m.create(clock, NONE);
        let begin = now(clock);
        m.set(timer, Spec::once(HOUR));
        let set = now(clock);
        m.pause(2 * MS);
        let asked = now(clock);
        let value = m.get(timer).value();
        let end = now(clock);
        assert!(value <= HOUR - (asked - set) && value >= HOUR - (end - begin), "clock {clock}: {value:?}");
    }
}

fn absolute_time_before_now_has_passed(m: &Machine) {
    for clock in CLOCKS {
        let timer = m.create(clock, NONE);
        m.set_at(timer, Spec::once(now(clock) - Duration::from_nanos(1)));
        assert_eq!(m.get(timer), Spec::default(), "clock {clock}");
        m.set_at(timer, Spec::once(Duration::from_nanos(1)));
        assert_eq!(m.get(timer), Spec::default(), "clock {clock}");
    }
}

/// A `SIGEV_NONE` one-shot expires without a signal and has no time left then.
fn sigev_none_one_shot_ends_with_no_time_left(m: &Machine) {
    let timer = m.create(MONOTONIC, NONE);
    m.set(timer, Spec::once(MS));
    m.until("the end", || (m.get(timer) == Spec::default()).then_some(()));
    assert_eq!(m.exchange(timer, Spec::default()), Spec::default());
    m.takes_nothing();
}

/// The remaining time is 0 as soon as the signal is pending.
fn one_shot_with_a_pending_signal_has_no_time_left(m: &Machine) {
    for clock in CLOCKS {
        let timer = m.create(clock, signal());
        m.set(timer, Spec::once(MS));
        m.until("the end", || (m.get(timer) == Spec::default()).then_some(()));
        assert_eq!(m.take().id, timer);
        assert_eq!(m.get(timer), Spec::default());
    }
}

/// When the remaining time is 0 the signal is pending.
fn one_shot_has_time_left_until_its_signal_is_pending(m: &Machine) {
    for _ in 0..20 {
        let timer = m.create(MONOTONIC, signal());
        m.set(timer, Spec::once(MS / 5));
        while m.get(timer) != Spec::default() {
            std::hint::spin_loop();
        }
        // The signal is pending already, so this does not wait.
        assert_eq!(m.system().take().map(|info| info.id), Some(timer));
    }
}

fn interval_timer_with_a_pending_signal_shows_its_next_deadline(m: &Machine) {
    for clock in CLOCKS {
        let timer = m.create(clock, signal());
        let grid = Grid { clock, first: now(clock), interval: 20 * MS };
        m.set_at(timer, grid.spec());
        m.pause(MS);
        for _ in 0..10 {
            grid.is_shown_by(m, timer);
            m.pause(3 * MS);
        }
        grid.take(m);
        grid.is_shown_by(m, timer);
        assert_eq!(m.delete(timer), 0);
    }
}

fn sigev_none_interval_timer_shows_its_next_deadline(m: &Machine) {
    for clock in CLOCKS {
        let timer = m.create(clock, NONE);
        for (first, interval) in [(now(clock), 20 * MS), (MS, HOUR), (now(clock) - 5 * MS, Duration::from_nanos(1))] {
            let grid = Grid { clock, first, interval };
            m.set_at(timer, grid.spec());
            for _ in 0..3 {
                // With a shorter interval, deadlines pass between the reads of the clock and of the timer.
                if interval >= MS {
                    grid.is_shown_by(m, timer);
                } else {
                    assert_eq!(m.get(timer), Spec::every(interval, interval));
                }
                m.pause(3 * MS);
            }
        }
        assert_eq!(m.overrun(timer), 0);
    }
}

/// The old setting equals the result of timer_gettime(2).
fn old_setting_with_a_pending_signal_is_the_next_deadline(m: &Machine) {
    let timer = m.create(MONOTONIC, signal());
    let grid = Grid::long_ago(MONOTONIC, 1);
    m.set_at(timer, grid.spec());
    grid.is_shown_by(m, timer);
    let begin = now(MONOTONIC);
    let old = m.exchange(timer, Spec::default());
    grid.is_next(old.value(), begin, now(MONOTONIC));
    assert_eq!(old.interval(), grid.interval);
    m.takes_nothing();
}

on_every_machine![
    place_for_the_setting_must_be_writable,
    timer_that_was_never_set_is_disarmed,
    remaining_time_decreases_to_the_deadline,
    remaining_time_of_a_relative_timer_decreases,
    absolute_time_before_now_has_passed,
    sigev_none_one_shot_ends_with_no_time_left,
    one_shot_with_a_pending_signal_has_no_time_left,
    interval_timer_with_a_pending_signal_shows_its_next_deadline,
    sigev_none_interval_timer_shows_its_next_deadline,
    old_setting_with_a_pending_signal_is_the_next_deadline,
];

// A delivering thread holds no lock, so for a moment the timer has expired but its signal is not pending yet.
on_machines_of_one_thread![one_shot_has_time_left_until_its_signal_is_pending];
