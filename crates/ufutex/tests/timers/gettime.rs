//! timer_gettime(2).

use std::time::Duration;

use crate::common::errno::{EFAULT, EINVAL};
use crate::grid::Grid;
use crate::machine::{HOUR, MS, Machine, now};
use crate::memory::{Event, NONE, SPEC, Spec};
use crate::{on_every_machine, on_machines_of_one_thread};

const MONOTONIC: i32 = libc::CLOCK_MONOTONIC;
const CLOCKS: [i32; 4] = [libc::CLOCK_REALTIME, libc::CLOCK_MONOTONIC, libc::CLOCK_BOOTTIME, libc::CLOCK_TAI];

fn signal() -> Event {
    Event::signal(libc::SIGUSR1, 0)
}

fn setting_must_have_a_place(m: &Machine) {
    let timer = m.create(MONOTONIC, NONE);
    for place in [0, m.nothing(), m.read_only(), m.before_read_only(SPEC - 1), u64::MAX - 7] {
        assert_eq!(m.raw_gettime(timer, place), EFAULT, "{place:#x}");
        assert_eq!(m.raw_gettime(timer + 1, place), EINVAL, "{place:#x}");
    }
    assert_eq!(m.raw_gettime(timer, m.bytes(SPEC + 8) + 1), 0);
}

fn timer_that_was_never_set_is_disarmed(m: &Machine) {
    for clock in CLOCKS.into_iter().chain([libc::CLOCK_PROCESS_CPUTIME_ID]) {
        for event in [NONE, signal()] {
            let timer = m.create(clock, event);
            assert_eq!(m.get(timer), Spec::default());
        }
    }
}

fn time_that_is_left_runs_down_to_the_deadline(m: &Machine) {
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

fn time_that_is_left_of_a_relative_one_runs_down_too(m: &Machine) {
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

fn time_on_the_absolute_scale_before_now_has_passed(m: &Machine) {
    for clock in CLOCKS {
        let timer = m.create(clock, NONE);
        m.set_at(timer, Spec::once(now(clock) - Duration::from_nanos(1)));
        assert_eq!(m.get(timer), Spec::default(), "clock {clock}");
        m.set_at(timer, Spec::once(Duration::from_nanos(1)));
        assert_eq!(m.get(timer), Spec::default(), "clock {clock}");
    }
}

/// Nobody is told, and nothing is left.
fn one_shot_that_tells_nobody_ends_with_nothing_left(m: &Machine) {
    let timer = m.create(MONOTONIC, NONE);
    m.set(timer, Spec::once(MS));
    m.until("the end", || (m.get(timer) == Spec::default()).then_some(()));
    assert_eq!(m.exchange(timer, Spec::default()), Spec::default());
    m.takes_nothing();
}

/// As soon as the signal is pending: whoever takes it finds nothing else.
fn one_shot_whose_signal_is_pending_has_nothing_left(m: &Machine) {
    for clock in CLOCKS {
        let timer = m.create(clock, signal());
        m.set(timer, Spec::once(MS));
        m.until("the end", || (m.get(timer) == Spec::default()).then_some(()));
        assert_eq!(m.take().id, timer);
        assert_eq!(m.get(timer), Spec::default());
    }
}

/// Until it says 0 the signal is not pending.
fn one_shot_has_time_left_until_its_signal_is_pending(m: &Machine) {
    for _ in 0..20 {
        let timer = m.create(MONOTONIC, signal());
        m.set(timer, Spec::once(MS / 5));
        while m.get(timer) != Spec::default() {
            std::hint::spin_loop();
        }
        // Nobody has to be waited for.
        assert_eq!(m.system().take().map(|info| info.id), Some(timer));
    }
}

fn interval_timer_whose_signal_is_pending_shows_its_next_deadline(m: &Machine) {
    for clock in CLOCKS {
        let timer = m.create(clock, signal());
        let grid = Grid { clock, first: now(clock), interval: 20 * MS };
        m.set_at(timer, grid.spec());
        m.pause(MS);
        for _ in 0..10 {
            grid.is_told_of(m, timer);
            m.pause(3 * MS);
        }
        grid.take(m);
        grid.is_told_of(m, timer);
        assert_eq!(m.delete(timer), 0);
    }
}

fn interval_timer_that_tells_nobody_shows_its_next_deadline(m: &Machine) {
    for clock in CLOCKS {
        let timer = m.create(clock, NONE);
        for (first, interval) in [(now(clock), 20 * MS), (MS, HOUR), (now(clock) - 5 * MS, Duration::from_nanos(1))] {
            let grid = Grid { clock, first, interval };
            m.set_at(timer, grid.spec());
            for _ in 0..3 {
                // The time of day is not read at once.
                if interval >= MS {
                    grid.is_told_of(m, timer);
                } else {
                    assert_eq!(m.get(timer), Spec::every(interval, interval));
                }
                m.pause(3 * MS);
            }
        }
        assert_eq!(m.overrun(timer), 0);
    }
}

/// The old setting is what timer_gettime(2) says.
fn old_setting_of_one_whose_signal_is_pending_is_its_next_deadline(m: &Machine) {
    let timer = m.create(MONOTONIC, signal());
    let grid = Grid::long_ago(MONOTONIC, 1);
    m.set_at(timer, grid.spec());
    grid.is_told_of(m, timer);
    let begin = now(MONOTONIC);
    let old = m.exchange(timer, Spec::default());
    grid.is_next(old.value(), begin, now(MONOTONIC));
    assert_eq!(old.interval(), grid.interval);
    m.takes_nothing();
}

on_every_machine![
    setting_must_have_a_place,
    timer_that_was_never_set_is_disarmed,
    time_that_is_left_runs_down_to_the_deadline,
    time_that_is_left_of_a_relative_one_runs_down_too,
    time_on_the_absolute_scale_before_now_has_passed,
    one_shot_that_tells_nobody_ends_with_nothing_left,
    one_shot_whose_signal_is_pending_has_nothing_left,
    interval_timer_whose_signal_is_pending_shows_its_next_deadline,
    interval_timer_that_tells_nobody_shows_its_next_deadline,
    old_setting_of_one_whose_signal_is_pending_is_its_next_deadline,
];

// A thread that delivers does so with nothing locked: for a moment the timer has expired, and its signal is on its way.
on_machines_of_one_thread![one_shot_has_time_left_until_its_signal_is_pending];
