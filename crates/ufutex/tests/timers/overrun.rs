//! How many deadlines passed between the first and the taking of its signal.

use std::time::Duration;

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

fn deadlines_that_had_passed_when_it_was_set_are_counted(m: &Machine) {
    for clock in CLOCKS {
        let timer = m.create(clock, signal());
        for count in [0, 1, 2, 30] {
            let grid = Grid::long_ago(clock, count);
            m.set_at(timer, grid.spec());
            assert!(grid.take(m).overrun >= count as i32);
            grid.is_told_of(m, timer);
        }
    }
    m.takes_nothing();
}

/// Of a relative one, the first has not passed when it is set.
fn relative_deadlines_count_from_when_it_was_set(m: &Machine) {
    let timer = m.create(MONOTONIC, signal());
    let begin = now(MONOTONIC);
    m.set(timer, Spec::every(MS, MS));
    let set = now(MONOTONIC);
    m.pause(10 * MS);
    let asked = now(MONOTONIC);
    let told = i64::from(m.take().overrun);
    let end = now(MONOTONIC);
    let passed = |length: Duration| (length.as_nanos() / MS.as_nanos()) as i64 - 1;
    assert!(told >= passed(asked - set) && told <= passed(end - begin), "{told}");
}

fn overrun_is_that_of_the_last_signal_that_was_taken(m: &Machine) {
    let timer = m.create(MONOTONIC, signal());
    let grid = Grid { interval: 10 * MS, first: now(MONOTONIC) - 55 * MS, clock: MONOTONIC };
    m.set_at(timer, grid.spec());
    m.pause(MS);
    assert_eq!(m.overrun(timer), 0);
    let told = grid.take(m).overrun;
    assert!(told >= 5);
    // While the next is pending it is what it was.
    m.pause(15 * MS);
    for _ in 0..3 {
        assert_eq!(m.overrun(timer), told as isize);
        m.get(timer);
    }
    let next = Grid { first: grid.first + grid.interval * (told as u32 + 1), ..grid };
    next.take(m);
    assert_eq!(m.delete(timer), 0);
}

fn asking_does_not_change_what_is_counted(m: &Machine) {
    for clock in CLOCKS {
        let timer = m.create(clock, signal());
        let grid = Grid::long_ago(clock, 17);
        m.set_at(timer, grid.spec());
        for _ in 0..5 {
            grid.is_told_of(m, timer);
            assert_eq!(m.overrun(timer), 0);
        }
        let told = grid.take(m).overrun;
        assert!(told >= 17);
        grid.is_told_of(m, timer);
        assert_eq!(m.overrun(timer), told as isize);
        // Here deadlines pass between the questions.
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

fn setting_a_timer_forgets_its_overrun(m: &Machine) {
    for new in [Spec::default(), Spec::once(HOUR), Spec::every(MS, HOUR)] {
        let timer = m.create(MONOTONIC, signal());
        let grid = Grid::long_ago(MONOTONIC, 9);
        m.set_at(timer, grid.spec());
        assert!(grid.take(m).overrun >= 9);
        m.set(timer, new);
        assert_eq!(m.overrun(timer), 0);
        // Nor is what had been counted of the signal that was taken back added to the next.
        m.set_at(timer, Grid::long_ago(MONOTONIC, 9).spec());
        m.get(timer);
        let grid = Grid::long_ago(MONOTONIC, 4);
        m.set_at(timer, grid.spec());
        grid.take(m);
    }
}

fn setting_that_is_refused_keeps_the_overrun(m: &Machine) {
    let timer = m.create(MONOTONIC, signal());
    let grid = Grid::long_ago(MONOTONIC, 9);
    m.set_at(timer, grid.spec());
    let told = grid.take(m).overrun;
    assert!(told >= 9);
    assert_eq!(m.try_settime(timer, 0, Spec { value: (1, -1), interval: (0, 0) }), crate::common::errno::EINVAL);
    assert_eq!(m.overrun(timer), told as isize);
}

fn timer_that_tells_nobody_has_no_overrun(m: &Machine) {
    for clock in CLOCKS {
        let timer = m.create(clock, NONE);
        m.set_at(timer, Grid::long_ago(clock, 9).spec());
        assert_eq!(m.overrun(timer), 0);
        m.get(timer);
        assert_eq!(m.overrun(timer), 0);
    }
}

fn overrun_is_at_most_the_highest_int(m: &Machine) {
    let nanosecond = Duration::from_nanos(1);
    for clock in CLOCKS {
        let timer = m.create(clock, signal());
        // So long ago that every clock has shown it, and there are more deadlines than an int counts.
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
    deadlines_that_had_passed_when_it_was_set_are_counted,
    relative_deadlines_count_from_when_it_was_set,
    overrun_is_that_of_the_last_signal_that_was_taken,
    asking_does_not_change_what_is_counted,
    setting_a_timer_forgets_its_overrun,
    setting_that_is_refused_keeps_the_overrun,
    timer_that_tells_nobody_has_no_overrun,
    overrun_is_at_most_the_highest_int,
];
