//! The overrun: the number of deadlines after the first one that have passed when the signal is taken.

use std::time::Duration;

use crate::common::libc;
use crate::grid::Grid;
use crate::machine::{HOUR, MS, Machine, now};
use crate::memory::{Event, NONE, Spec};
use crate::on_every_machine;

const MONOTONIC: i32 = libc::CLOCK_MONOTONIC;
const CLOCKS: [i32; 4] = [libc::CLOCK_REALTIME, libc::CLOCK_MONOTONIC, libc::CLOCK_BOOTTIME, libc::CLOCK_TAI];

fn signal() -> Event {
    Event::signal(libc::SIGUSR1, 0)
}

fn timer_that_has_not_expired_has_no_overrun(m: &Machine) {
    for event in [NONE, signal()] {
        let timer = m.create(MONOTONIC, event);
        assert_eq!(m.overrun(timer), 0);
        m.set(timer, Spec::every(HOUR, HOUR));
        assert_eq!(m.overrun(timer), 0);
    }
}

fn one_shot_has_no_overrun(m: &Machine) {
    let timer = m.create(MONOTONIC, signal());
    m.set_at(timer, Spec::once(Duration::from_nanos(1)));
    m.pause(MS);
    assert_eq!(m.take().overrun, 0);
    assert_eq!(m.overrun(timer), 0);
}

fn deadlines_that_passed_while_the_signal_was_pending_are_counted(m: &Machine) {
    for clock in CLOCKS {
        let timer = m.create(clock, signal());
        let grid = Grid { clock, first: now(clock) + MS, interval: MS / 4 };
        m.set_at(timer, grid.spec());
        m.pause(6 * MS);
        assert!(grid.take(m).overrun >= 19);
        assert_eq!(m.delete(timer), 0);
    }
}

fn deadlines_before_settime_are_counted(m: &Machine) {
    for clock in CLOCKS {
        let timer = m.create(clock, signal());
        for count in [0, 1, 2, 30] {
            let grid = Grid::long_ago(clock, count);
            m.set_at(timer, grid.spec());
            assert!(grid.take(m).overrun >= count as i32);
            grid.is_shown_by(m, timer);
        }
    }
    m.takes_nothing();
}

/// The first deadline of a relative timer is in the future when the timer is set.
fn relative_deadlines_count_from_settime(m: &Machine) {
    let timer = m.create(MONOTONIC, signal());
    let begin = now(MONOTONIC);
    m.set(timer, Spec::every(MS, MS));
    let set = now(MONOTONIC);
    m.pause(10 * MS);
    let asked = now(MONOTONIC);
    let overrun = i64::from(m.take().overrun);
    let end = now(MONOTONIC);
    let passed = |length: Duration| (length.as_nanos() / MS.as_nanos()) as i64 - 1;
    assert!(overrun >= passed(asked - set) && overrun <= passed(end - begin), "{overrun}");
}

fn overrun_is_that_of_the_last_signal_that_was_taken(m: &Machine) {
    let timer = m.create(MONOTONIC, signal());
    let grid = Grid { interval: 10 * MS, first: now(MONOTONIC) - 55 * MS, clock: MONOTONIC };
    m.set_at(timer, grid.spec());
    m.pause(MS);
    assert_eq!(m.overrun(timer), 0);
    let overrun = grid.take(m).overrun;
    assert!(overrun >= 5);
    // While the next signal is pending, the overrun stays the same.
    m.pause(15 * MS);
    for _ in 0..3 {
        assert_eq!(m.overrun(timer), overrun as isize);
        m.get(timer);
    }
    let next = Grid { first: grid.first + grid.interval * (overrun as u32 + 1), ..grid };
    next.take(m);
    assert_eq!(m.delete(timer), 0);
}

fn gettime_and_getoverrun_do_not_change_the_count(m: &Machine) {
    for clock in CLOCKS {
        let timer = m.create(clock, signal());
        let grid = Grid::long_ago(clock, 17);
        m.set_at(timer, grid.spec());
        for _ in 0..5 {
            grid.is_shown_by(m, timer);
            assert_eq!(m.overrun(timer), 0);
        }
        let overrun = grid.take(m).overrun;
        assert!(overrun >= 17);
        grid.is_shown_by(m, timer);
        assert_eq!(m.overrun(timer), overrun as isize);
        // With this interval, deadlines pass between the calls.
        let grid = Grid { clock, first: now(clock), interval: MS / 3 };
        m.set_at(timer, grid.spec());
        for _ in 0..5 {
            m.pause(MS / 2);
            m.get(timer);
        }
        grid.take(m);
        assert_eq!(m.delete(timer), 0);
    }
}

fn setting_a_timer_resets_its_overrun(m: &Machine) {
    for new in [Spec::default(), Spec::once(HOUR), Spec::every(MS, HOUR)] {
        let timer = m.create(MONOTONIC, signal());
        let grid = Grid::long_ago(MONOTONIC, 9);
        m.set_at(timer, grid.spec());
        assert!(grid.take(m).overrun >= 9);
        m.set(timer, new);
        assert_eq!(m.overrun(timer), 0);
        // The overrun of the cancelled signal is not added to that of the next one.
        m.set_at(timer, Grid::long_ago(MONOTONIC, 9).spec());
        m.get(timer);
        let grid = Grid::long_ago(MONOTONIC, 4);
        m.set_at(timer, grid.spec());
        grid.take(m);
    }
}

fn invalid_settime_keeps_the_overrun(m: &Machine) {
    let timer = m.create(MONOTONIC, signal());
    let grid = Grid::long_ago(MONOTONIC, 9);
    m.set_at(timer, grid.spec());
    let overrun = grid.take(m).overrun;
    assert!(overrun >= 9);
    assert_eq!(m.try_settime(timer, 0, Spec { value: (1, -1), interval: (0, 0) }), crate::common::errno::EINVAL);
    assert_eq!(m.overrun(timer), overrun as isize);
}

fn sigev_none_timer_has_no_overrun(m: &Machine) {
    for clock in CLOCKS {
        let timer = m.create(clock, NONE);
        m.set_at(timer, Grid::long_ago(clock, 9).spec());
        assert_eq!(m.overrun(timer), 0);
        m.get(timer);
        assert_eq!(m.overrun(timer), 0);
    }
}

fn overrun_is_at_most_int_max(m: &Machine) {
    let nanosecond = Duration::from_nanos(1);
    for clock in CLOCKS {
        let timer = m.create(clock, signal());
        // Far enough in the past for more deadlines than an int can count, but not before the start of any clock.
        m.set_at(timer, Spec::every(nanosecond, now(clock) - 4 * HOUR / 3600));
        assert_eq!(m.take().overrun, i32::MAX, "clock {clock}");
        assert_eq!(m.overrun(timer), i32::MAX as isize);
        assert_eq!(m.delete(timer), 0);
    }
    let timer = m.create(libc::CLOCK_REALTIME, signal());
    m.set_at(timer, Spec::every(nanosecond, nanosecond));
    m.get(timer);
    assert_eq!(m.take().overrun, i32::MAX);
    assert_eq!(m.delete(timer), 0);
}

on_every_machine![
    timer_that_has_not_expired_has_no_overrun,
    one_shot_has_no_overrun,
    deadlines_that_passed_while_the_signal_was_pending_are_counted,
    deadlines_before_settime_are_counted,
    relative_deadlines_count_from_settime,
    overrun_is_that_of_the_last_signal_that_was_taken,
    gettime_and_getoverrun_do_not_change_the_count,
    setting_a_timer_resets_its_overrun,
    invalid_settime_keeps_the_overrun,
    sigev_none_timer_has_no_overrun,
    overrun_is_at_most_int_max,
];
