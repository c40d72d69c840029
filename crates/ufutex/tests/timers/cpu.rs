//! Timers on CPU-time clocks of processes and threads.
//!
//! Promise: CPU clocks

use std::os::unix::process::parent_id;
use std::time::Duration;

use crate::common::asleep::thread_id;
use crate::common::errno::{EINVAL, ESRCH};
use crate::grid::Grid;
use crate::machine::{HOUR, MS, Machine, now};
use crate::memory::{Event, NONE, Spec};
use crate::on_every_machine;

const PROCESS: i32 = libc::CLOCK_PROCESS_CPUTIME_ID;
const THREAD: i32 = libc::CLOCK_THREAD_CPUTIME_ID;
const NANOSECOND: Duration = Duration::from_nanos(1);

/// The kind of CPU-time clock: `CPUCLOCK_SCHED`, which clock_getcpuclockid(3) uses, or the older `PROF` and `VIRT`.
const SCHED: i32 = 2;

fn of_process(process: i32) -> i32 {
    !process << 3 | SCHED
}

fn of_thread(thread: i32) -> i32 {
    of_process(thread) | 4
}

fn signal() -> Event {
    Event::signal(libc::SIGUSR1, 7)
}

fn this_process() -> i32 {
    std::process::id() as i32
}

/// More than a tick of any usual kernel. The kernel looks at CPU times in its ticks. Where other work has the CPU at
/// each tick, it never sees a thread that runs for less at a time.
const TICK: Duration = Duration::from_millis(12);

/// Uses CPU time in the calling thread.
fn burn(length: Duration) {
    let begin = now(THREAD);
    while now(THREAD) - begin < length {
        std::hint::spin_loop();
    }
}

fn clocks_of_processes_and_threads_have_timers(m: &Machine) {
    let other = m.system().other();
    let parent = parent_id() as i32;
    for clock in [
        PROCESS,
        THREAD,
        of_process(0),
        of_thread(0),
        of_process(this_process()),
        of_thread(this_process()),
        of_thread(thread_id()),
        of_thread(other),
        of_process(parent),
    ] {
        let timer = m.create(clock, signal());
        m.set(timer, Spec::once(HOUR));
        let left = m.get(timer).value();
        assert!(left <= HOUR && left > HOUR / 2, "clock {clock}: {left:?}");
        assert_eq!(m.delete(timer), 0);
    }
}

fn all_three_ways_of_measuring_have_timers(m: &Machine) {
    for way in 0..3 {
        for clock in [of_process(0), of_thread(0)] {
            let timer = m.create(clock & !3 | way, signal());
            m.set(timer, Spec::once(HOUR));
            assert!(m.get(timer).value() <= HOUR);
        }
    }
}

/// The clock's process or thread is checked last, after the ID has been allocated and written.
fn clock_of_a_missing_process_is_einval_after_all_other_checks(m: &Machine) {
    let (other, parent) = (m.system().other(), parent_id() as i32);
    let missing = 4_194_304; // above the highest possible TID
    let fourth_way = of_thread(0) | 3;
    // Reading this clock succeeds. In a process's first thread TID and PID are equal, so a missing PID stands there.
    let of_own_thread = if thread_id() == this_process() { of_process(missing) } else { of_process(thread_id()) };
    let clocks = [
        of_own_thread,
        of_process(missing),
        of_thread(missing),
        of_process(other),
        of_thread(parent),
        fourth_way,
        of_thread(parent) | 3,
    ];
    let event = m.event(NONE);
    for (failed, clock) in clocks.into_iter().enumerate() {
        let id = m.bytes(4);
        m.put_i32(id, -7);
        assert_eq!(m.raw_create(clock, event, id), EINVAL, "clock {clock}");
        assert_eq!(m.get_i32(id), failed as i32);
        assert_eq!(m.delete(failed as i32), EINVAL);
    }
    // Other errors take precedence.
    assert_eq!(m.raw_create(of_process(missing), event, m.nothing()), crate::common::errno::EFAULT);
    assert_eq!(m.create(PROCESS, NONE), clocks.len() as i32 + 1);
}

fn remaining_cpu_time_decreases(m: &Machine) {
    for clock in [PROCESS, THREAD, of_process(this_process()), of_thread(thread_id())] {
        for event in [NONE, signal()] {
            let timer = m.create(clock, event);
            let before = now(clock);
            m.set(timer, Spec::every(HOUR, HOUR));
            let set = now(clock);
            burn(2 * MS);
            let asked = now(clock);
            let spec = m.get(timer);
            let end = now(clock);
            let value = spec.value();
            assert!(value <= HOUR - (asked - set) && value >= HOUR - (end - before), "clock {clock}: {value:?}");
            assert_eq!(spec.interval(), HOUR);
            let at = now(clock) + HOUR;
            m.set_at(timer, Spec::once(at));
            let begin = now(clock);
            let value = m.get(timer).value();
            assert!(begin + value <= at && now(clock) + value >= at, "clock {clock}: {value:?}");
        }
    }
}

fn remaining_cpu_time_of_a_sleeping_thread_does_not_decrease(m: &Machine) {
    let clock = of_thread(m.system().other());
    for event in [NONE, signal()] {
        let timer = m.create(clock, event);
        // The other thread may not sleep yet.
        m.until("the other thread sleeps", || {
            let before = now(clock);
            m.set(timer, Spec::once(20 * MS));
            m.pause(30 * MS);
            (now(clock) == before).then_some(())
        });
        assert_eq!(m.get(timer), Spec::once(20 * MS));
    }
    assert_eq!(m.system().take(), None);
}

fn timer_expires_when_the_cpu_time_has_been_used(m: &Machine) {
    for clock in [PROCESS, THREAD, of_process(this_process()), of_thread(thread_id())] {
        let timer = m.create(clock, signal());
        let at = now(clock) + 3 * MS;
        m.set_at(timer, Spec::once(at));
        let taken = m.until("the signal", || {
            burn(TICK);
            m.system().take()
        });
        assert!(now(clock) >= at);
        assert_eq!((taken.id, taken.value, taken.overrun), (timer, 7, 0));
        assert_eq!(m.get(timer), Spec::default());
        let before = now(clock);
        m.set(timer, Spec::once(3 * MS));
        m.until("the signal", || {
            burn(TICK);
            m.system().take()
        });
        assert!(now(clock) - before >= 3 * MS);
    }
    m.takes_nothing();
}

fn cpu_time_that_has_passed_expires_at_once(m: &Machine) {
    for clock in [PROCESS, THREAD, of_thread(m.system().other()), of_process(parent_id() as i32)] {
        m.until("the clock runs", || (now(clock) > NANOSECOND).then_some(()));
        let timer = m.create(clock, signal());
        m.set_at(timer, Spec::once(NANOSECOND));
        assert_eq!(m.take().id, timer, "clock {clock}");
        assert_eq!(m.get(timer), Spec::default());
    }
    m.takes_nothing();
}

/// timer_settime(2) reports the time until the next expiry, even if the timer is overdue and no signal has come yet.
fn old_setting_of_an_overdue_timer_is_its_next_interval(m: &Machine) {
    let interval = Duration::from_micros(300);
    for clock in [PROCESS, THREAD] {
        let timer = m.create(clock, signal());
        let mut overdue = 0;
        for _ in 0..20 {
            m.set(timer, Spec::every(interval, Duration::from_micros(50)));
            burn(Duration::from_micros(330));
            let old = m.exchange(timer, Spec::default());
            assert_eq!(old.interval(), interval);
            assert!(old.value() <= interval, "{:?}", old.value());
            overdue += i32::from(old.value() == NANOSECOND);
        }
        // The next deadline is a nanosecond away once in 300,000 times.
        assert!(overdue < 3, "{overdue} of 20");
    }
    m.takes_nothing();
}

fn sigev_none_timer_ends_with_no_time_left(m: &Machine) {
    let timer = m.create(THREAD, NONE);
    m.set(timer, Spec::once(MS));
    burn(2 * MS);
    assert_eq!(m.get(timer), Spec::default());
    m.set_at(timer, Spec::once(NANOSECOND));
    assert_eq!(m.get(timer), Spec::default());
    assert_eq!(m.overrun(timer), 0);
    m.takes_nothing();
}

fn deadlines_that_passed_while_the_signal_was_pending_are_counted(m: &Machine) {
    for clock in [PROCESS, THREAD] {
        let timer = m.create(clock, signal());
        let grid = Grid { clock, first: NANOSECOND, interval: MS };
        burn(3 * MS);
        m.set_at(timer, grid.spec());
        grid.is_shown_by(m, timer);
        burn(2 * MS);
        grid.is_shown_by(m, timer);
        let taken = grid.take(m).overrun;
        assert!(taken >= 4, "{taken}");
        let next = Grid { first: grid.first + grid.interval * (taken as u32 + 1), ..grid };
        m.until("the next signal", || {
            burn(TICK);
            let begin = now(clock);
            let taken = m.system().take()?;
            let end = now(clock);
            assert!(end >= next.first);
            let least = if begin < next.first { 0 } else { next.passed_after_first(begin) };
            assert!((least..=next.passed_after_first(end)).contains(&i64::from(taken.overrun)));
            Some(())
        });
        m.set(timer, Spec::default());
    }
    m.takes_nothing();
}

fn sigev_none_timer_shows_its_next_deadline(m: &Machine) {
    let timer = m.create(THREAD, NONE);
    let grid = Grid { clock: THREAD, first: NANOSECOND, interval: 3 * MS };
    m.set_at(timer, grid.spec());
    for _ in 0..3 {
        burn(2 * MS);
        grid.is_shown_by(m, timer);
    }
    assert_eq!(m.overrun(timer), 0);
}

fn thread_that_has_ended_has_no_cpu_time(m: &Machine) {
    let clock = of_thread(m.system().other());
    let timers = [NONE, signal()].map(|event| m.create(clock, event));
    for timer in timers {
        m.set(timer, Spec::every(HOUR, HOUR));
    }
    m.system().end_other();
    for timer in timers {
        assert_eq!(m.get(timer), Spec::default());
        assert_eq!(m.try_settime(timer, 0, Spec::once(HOUR)), ESRCH);
        assert_eq!(m.try_settime(timer, 0, Spec::default()), ESRCH);
        assert_eq!(m.try_settime(timer, 0, Spec { value: (0, -1), interval: (0, 0) }), EINVAL);
        assert_eq!(m.overrun(timer), 0);
        assert_eq!(m.delete(timer), 0);
        assert_eq!(m.delete(timer), EINVAL);
    }
    assert_eq!(m.try_create(clock, Some(NONE)), EINVAL);
    m.takes_nothing();
}

fn settime_that_fails_for_an_ended_thread_only_cancels_the_pending_signal(m: &Machine) {
    let clock = of_thread(m.system().other());
    let timers = [(); 2].map(|()| m.create(clock, signal()));
    let mut overruns = Vec::new();
    for timer in timers {
        m.set_at(timer, Spec::every(NANOSECOND, NANOSECOND));
        let first = m.take();
        assert!(first.overrun > 0);
        overruns.push(first.overrun as isize);
    }
    // These signals are pending in any case, because the thread has used this much time.
    let pending = [(); 2].map(|()| m.create(clock, signal()));
    for timer in pending {
        m.set_at(timer, Spec::once(NANOSECOND));
    }
    for timer in pending {
        m.until("the end", || (m.get(timer) == Spec::default()).then_some(()));
    }
    m.pause(MS);
    m.system().end_other();
    assert_eq!(m.try_settime(pending[0], 0, Spec::default()), ESRCH);
    for (timer, overrun) in timers.into_iter().zip(overruns) {
        assert_eq!(m.try_settime(timer, 0, Spec::once(HOUR)), ESRCH);
        assert_eq!(m.overrun(timer), overrun);
    }
    assert_eq!(m.take().id, pending[1]);
    m.takes_nothing();
}

/// With the host's clocks, and a guest's numbers, which may be those of any process or thread of the host.
#[test]
fn guest_has_no_clocks_of_the_hosts_cpu_time() {
    let m = crate::engine::of_a_guest();
    let clocks = [PROCESS, THREAD, of_process(0), of_thread(0), of_process(parent_id() as i32), of_thread(thread_id())];
    let (event, id) = (m.event(NONE), m.bytes(4));
    for (failed, clock) in clocks.into_iter().enumerate() {
        assert_eq!(m.raw_create(clock, event, id), EINVAL, "clock {clock}");
        assert_eq!(m.get_i32(id), failed as i32);
    }
    assert_eq!(m.create(libc::CLOCK_MONOTONIC, NONE), clocks.len() as i32);
}

on_every_machine![
    settime_that_fails_for_an_ended_thread_only_cancels_the_pending_signal,
    clocks_of_processes_and_threads_have_timers,
    all_three_ways_of_measuring_have_timers,
    clock_of_a_missing_process_is_einval_after_all_other_checks,
    remaining_cpu_time_decreases,
    remaining_cpu_time_of_a_sleeping_thread_does_not_decrease,
    timer_expires_when_the_cpu_time_has_been_used,
    cpu_time_that_has_passed_expires_at_once,
    old_setting_of_an_overdue_timer_is_its_next_interval,
    sigev_none_timer_ends_with_no_time_left,
    deadlines_that_passed_while_the_signal_was_pending_are_counted,
    sigev_none_timer_shows_its_next_deadline,
    thread_that_has_ended_has_no_cpu_time,
];
