//! The signal that a timer sends.

use std::time::Duration;

use crate::common::asleep::thread_id;
use crate::common::libc;
use crate::grid::Grid;
use crate::machine::{HOUR, Info, MS, Machine, now};
use crate::memory::{Event, NONE, Spec};
use crate::on_every_machine;

const MONOTONIC: i32 = libc::CLOCK_MONOTONIC;
const CLOCKS: [i32; 4] = [libc::CLOCK_REALTIME, libc::CLOCK_MONOTONIC, libc::CLOCK_BOOTTIME, libc::CLOCK_TAI];
const SIGNAL: i32 = libc::SIGUSR1;
const SI_TIMER: i32 = -2;

fn signal() -> Event {
    Event::signal(SIGNAL, 7)
}

fn info(id: i32, event: Event) -> Info {
    Info { signal: event.signal, code: SI_TIMER, id, overrun: 0, value: event.value }
}

fn signal_identifies_the_expired_timer(m: &Machine) {
    for (signal, value) in [(SIGNAL, u64::MAX), (libc::SIGALRM, 0), (34, 0x1234_5678_9abc_def0), (64, 1 << 63), (1, 3)]
    {
        let event = Event::signal(signal, value);
        let timer = m.create(MONOTONIC, event);
        m.set(timer, Spec::once(MS));
        assert_eq!(m.take(), info(timer, event));
    }
    m.takes_nothing();
}

fn without_a_sigevent_it_is_sigalrm_with_the_id(m: &Machine) {
    for expected in 0..3 {
        let timer = m.try_create(MONOTONIC, None) as i32;
        assert_eq!(timer, expected);
        m.set(timer, Spec::once(MS));
        assert_eq!(m.take(), info(timer, Event::signal(libc::SIGALRM, timer as u64)));
    }
}

fn sigev_thread_is_a_plain_signal(m: &Machine) {
    let event = Event { notify: libc::SIGEV_THREAD, ..signal() };
    let timer = m.create(MONOTONIC, event);
    m.set(timer, Spec::once(MS));
    assert_eq!(m.take(), info(timer, event));
}

fn one_thread_can_be_notified(m: &Machine) {
    let to_other = Event::thread(SIGNAL, 3, m.system().other());
    let to_this = Event::thread(SIGNAL, 4, thread_id());
    let timers = [to_other, to_this].map(|event| m.create(MONOTONIC, event));
    m.set(timers[0], Spec::once(MS));
    m.pause(5 * MS);
    assert_eq!(m.system().take(), None);
    assert_eq!(m.take_on_other(), info(timers[0], to_other));
    m.set(timers[1], Spec::once(MS));
    m.pause(5 * MS);
    assert_eq!(m.system().take_on_other(), None);
    assert_eq!(m.take(), info(timers[1], to_this));
    m.takes_nothing();
}

fn timer_outlives_the_thread_that_it_notifies(m: &Machine) {
    let timer = m.create(MONOTONIC, Event::thread(SIGNAL, 3, m.system().other()));
    m.system().end_other();
    let grid = Grid { clock: MONOTONIC, first: now(MONOTONIC) + MS, interval: 20 * MS };
    m.set_at(timer, grid.spec());
    m.pause(5 * MS);
    assert_eq!(m.system().take(), None);
    grid.is_shown_by(m, timer);
    assert_eq!(m.overrun(timer), 0);
    assert_eq!(m.delete(timer), 0);
}

fn sigev_none_timer_sends_no_signal(m: &Machine) {
    for clock in CLOCKS {
        let timer = m.create(clock, Event { signal: SIGNAL, ..NONE });
        m.set(timer, Spec::every(MS, MS));
    }
    m.takes_nothing();
}

fn no_timer_expires_before_its_time(m: &Machine) {
    for clock in CLOCKS {
        let timer = m.create(clock, signal());
        for length in [MS / 10, MS, 3 * MS] {
            let begin = now(clock);
            m.set(timer, Spec::once(length));
            m.take();
            assert!(now(clock) - begin >= length, "clock {clock}, relative");
            let at = now(clock) + length;
            m.set_at(timer, Spec::once(at));
            m.take();
            assert!(now(clock) >= at, "clock {clock}, absolute");
        }
    }
}

fn time_that_has_passed_expires_at_once(m: &Machine) {
    for clock in CLOCKS {
        let timer = m.create(clock, signal());
        for at in [Duration::from_nanos(1), now(clock) / 2, now(clock) - Duration::from_nanos(1)] {
            m.set_at(timer, Spec::once(at));
            assert_eq!(m.take(), info(timer, signal()), "clock {clock}");
        }
    }
}

fn one_shot_expires_once_each_time_that_it_is_set(m: &Machine) {
    let timer = m.create(MONOTONIC, signal());
    for _ in 0..5 {
        m.set(timer, Spec::once(MS));
        assert_eq!(m.take(), info(timer, signal()));
    }
    m.takes_nothing();
}

/// The number of signals plus their overruns equals the number of deadlines that have passed.
fn interval_timer_expires_repeatedly(m: &Machine) {
    for clock in CLOCKS {
        let timer = m.create(clock, signal());
        let mut grid = Grid { clock, first: now(clock) + MS, interval: MS };
        m.set_at(timer, grid.spec());
        for _ in 0..5 {
            let taken = grid.take(m);
            assert!(now(clock) >= grid.first);
            // The next deadline is the first one that had not passed.
            grid.first += grid.interval * (1 + taken.overrun as u32);
        }
        assert_eq!(m.delete(timer), 0);
    }
}

/// A timer sends no second signal until the first has been taken.
fn at_most_one_signal_is_pending(m: &Machine) {
    let timer = m.create(MONOTONIC, signal());
    let grid = Grid { clock: MONOTONIC, first: now(MONOTONIC), interval: HOUR };
    m.set_at(timer, grid.spec());
    grid.take(m);
    m.takes_nothing();
    let grid = Grid { interval: MS, ..grid };
    m.set_at(timer, grid.spec());
    m.pause(10 * MS);
    let begin = now(MONOTONIC);
    let taken = grid.take(m);
    assert!(taken.overrun >= 9, "{taken:?}");
    // The next signal comes at the next deadline.
    let next = grid.first + grid.interval * (1 + taken.overrun as u32);
    assert!(next > begin);
    m.take();
    assert!(now(MONOTONIC) >= next);
    assert_eq!(m.delete(timer), 0);
    m.takes_nothing();
}

fn every_timer_has_a_signal_of_its_own(m: &Machine) {
    let timers: Vec<i32> = (0..20).map(|value| m.create(MONOTONIC, Event::signal(SIGNAL, value))).collect();
    for &timer in &timers {
        m.set(timer, Spec::once(MS));
    }
    let mut taken: Vec<i32> = timers.iter().map(|_| m.take().id).collect();
    taken.sort_unstable();
    assert_eq!(taken, timers);
    m.takes_nothing();
}

fn timers_that_are_due_at_different_times_expire_in_that_order(m: &Machine) {
    let timers: Vec<i32> = (0..10).map(|_| m.create(MONOTONIC, signal())).collect();
    loop {
        let begin = now(MONOTONIC) + 10 * MS;
        for (&timer, place) in timers.iter().zip([3, 1, 4, 0, 5, 9, 2, 6, 8, 7]) {
            m.set_at(timer, Spec::once(begin + MS / 2 * place));
        }
        let was_in_time = now(MONOTONIC) < begin;
        let taken: Vec<i32> = timers.iter().map(|_| m.take().id).collect();
        if was_in_time {
            assert_eq!(taken, [3, 1, 6, 0, 2, 4, 7, 9, 8, 5]);
            return;
        }
    }
}

fn timer_that_was_disarmed_does_not_expire(m: &Machine) {
    let timer = m.create(MONOTONIC, signal());
    m.set(timer, Spec::every(30 * MS, 30 * MS));
    m.set(timer, Spec::default());
    m.pause(30 * MS);
    m.takes_nothing();
}

fn setting_a_timer_cancels_its_pending_signal(m: &Machine) {
    for old in [Spec::once(MS), Spec::every(MS, MS)] {
        for new in [Spec::default(), Spec::once(HOUR), Spec::every(MS, HOUR)] {
            let timer = m.create(MONOTONIC, signal());
            m.set(timer, old);
            m.pause(4 * MS);
            m.set(timer, new);
            let spec = m.get(timer);
            assert!(spec == new || spec.value() > HOUR / 2, "{spec:?}");
            m.takes_nothing();
            assert_eq!(m.overrun(timer), 0);
        }
    }
}

fn setting_a_timer_again_sends_one_new_signal(m: &Machine) {
    let timer = m.create(MONOTONIC, signal());
    for old in [Spec::once(MS), Spec::every(MS, MS)] {
        m.set(timer, old);
        m.pause(8 * MS);
        let grid = Grid { clock: MONOTONIC, first: now(MONOTONIC), interval: HOUR };
        m.set_at(timer, grid.spec());
        assert_eq!(grid.take(m), info(timer, signal()));
        m.takes_nothing();
    }
}

fn deleting_a_timer_cancels_its_pending_signal(m: &Machine) {
    for spec in [Spec::once(MS), Spec::every(MS, MS)] {
        let timer = m.create(MONOTONIC, signal());
        m.set(timer, spec);
        m.pause(4 * MS);
        assert_eq!(m.delete(timer), 0);
        m.takes_nothing();
    }
}

/// A cancelled signal is not delivered for a later timer with the same ID either.
fn cancelled_signal_is_not_delivered_for_a_later_timer_with_the_id(m: &Machine) {
    let timer = m.create(MONOTONIC, signal());
    m.set(timer, Spec::every(MS, MS));
    m.pause(4 * MS);
    assert_eq!(m.delete(timer), 0);
    assert_eq!(m.prctl(1), 0);
    assert_eq!(m.restore(timer, Some(Event::signal(SIGNAL, 8))), 0);
    m.takes_nothing();
    m.set(timer, Spec::once(MS));
    assert_eq!(m.take(), info(timer, Event::signal(SIGNAL, 8)));
    m.takes_nothing();
}

fn gettime_does_not_cancel_the_signal(m: &Machine) {
    let timer = m.create(MONOTONIC, signal());
    m.set(timer, Spec::once(MS));
    m.until("the end", || (m.get(timer) == Spec::default()).then_some(()));
    assert_eq!(m.overrun(timer), 0);
    assert_eq!(m.take(), info(timer, signal()));
}

/// A settime with an invalid time changes nothing.
fn invalid_settime_does_not_cancel_the_signal(m: &Machine) {
    let timer = m.create(MONOTONIC, signal());
    m.set(timer, Spec::once(MS));
    m.pause(4 * MS);
    assert_eq!(m.try_settime(timer, 0, Spec { value: (0, -1), interval: (0, 0) }), crate::common::errno::EINVAL);
    assert_eq!(m.take(), info(timer, signal()));
}

on_every_machine![
    signal_identifies_the_expired_timer,
    without_a_sigevent_it_is_sigalrm_with_the_id,
    sigev_thread_is_a_plain_signal,
    one_thread_can_be_notified,
    timer_outlives_the_thread_that_it_notifies,
    sigev_none_timer_sends_no_signal,
    no_timer_expires_before_its_time,
    time_that_has_passed_expires_at_once,
    one_shot_expires_once_each_time_that_it_is_set,
    interval_timer_expires_repeatedly,
    at_most_one_signal_is_pending,
    every_timer_has_a_signal_of_its_own,
    timers_that_are_due_at_different_times_expire_in_that_order,
    timer_that_was_disarmed_does_not_expire,
    setting_a_timer_cancels_its_pending_signal,
    setting_a_timer_again_sends_one_new_signal,
    deleting_a_timer_cancels_its_pending_signal,
    cancelled_signal_is_not_delivered_for_a_later_timer_with_the_id,
    gettime_does_not_cancel_the_signal,
    invalid_settime_does_not_cancel_the_signal,
];
