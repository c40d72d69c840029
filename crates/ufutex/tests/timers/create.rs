//! timer_create(2): its arguments and the order of their checks.

use crate::common::errno::{EAGAIN, EFAULT, EINVAL, EOPNOTSUPP, EPERM};
use crate::common::libc;
use crate::common::skipped::skip;
use crate::machine::{HOUR, Machine, has_clock};
use crate::memory::{EVENT, Event, NONE, Spec};
use crate::on_every_machine;

const SIGNAL: i32 = libc::SIGUSR1;
const MONOTONIC: i32 = libc::CLOCK_MONOTONIC;
const NO_CLOCK: i32 = 12;

fn every_clock_that_supports_timers_has_them(m: &Machine) {
    for clock in [
        libc::CLOCK_REALTIME,
        libc::CLOCK_MONOTONIC,
        libc::CLOCK_BOOTTIME,
        libc::CLOCK_TAI,
        libc::CLOCK_PROCESS_CPUTIME_ID,
        libc::CLOCK_THREAD_CPUTIME_ID,
    ]
    .into_iter()
    .filter(|&clock| has_clock(clock))
    {
        let timer = m.create(clock, NONE);
        m.set(timer, Spec::once(HOUR));
        let left = m.get(timer).value();
        assert!(left <= HOUR && left > HOUR / 2, "clock {clock}: {left:?}");
        assert_eq!(m.delete(timer), 0);
    }
}

fn clocks_without_timers_are_eopnotsupp(m: &Machine) {
    for clock in [libc::CLOCK_MONOTONIC_RAW, libc::CLOCK_REALTIME_COARSE, libc::CLOCK_MONOTONIC_COARSE] {
        assert_eq!(m.try_create(clock, Some(NONE)), EOPNOTSUPP, "clock {clock}");
    }
}

fn invalid_clock_ids_are_einval(m: &Machine) {
    for clock in [10, NO_CLOCK, 13, 15, 24, 32, 1000, i32::MAX] {
        assert_eq!(m.try_create(clock, Some(NONE)), EINVAL, "clock {clock}");
    }
}

/// A clock ID can encode the descriptor of a clock device. Such clocks have no timers, whether the descriptor is open
/// or not.
fn clocks_of_devices_are_eopnotsupp(m: &Machine) {
    for descriptor in [0, 1, 1000] {
        assert_eq!(m.try_create(!descriptor << 3 | 3, Some(NONE)), EOPNOTSUPP, "descriptor {descriptor}");
    }
}

/// Whether an alarm clock has a wakeup device is checked last, after the ID has been allocated.
fn alarm_clocks_are_refused_last(m: &Machine) {
    let (event, id) = (m.event(NONE), m.bytes(4));
    for clock in [libc::CLOCK_REALTIME_ALARM, libc::CLOCK_BOOTTIME_ALARM] {
        let first = m.create(MONOTONIC, NONE);
        let result = m.raw_create(clock, event, id);
        if result == 0 {
            skip("this machine can be woken by a clock");
            return;
        }
        assert!([EOPNOTSUPP, EPERM].contains(&result), "{result}");
        assert_eq!(m.get_i32(id), first + 1);
        assert_eq!(m.delete(first + 1), EINVAL);
        assert_eq!(m.create(MONOTONIC, NONE), first + 2);
    }
}

fn clock_is_32_bits_of_its_register(m: &Machine) {
    let (event, id) = (m.event(NONE), m.bytes(4));
    let args = |clock: u64| [clock, event, id, 0, 0, 0];
    assert_eq!(m.call(crate::machine::Call::Create, args(1 << 32 | 1)), 0);
    assert_eq!(m.call(crate::machine::Call::Create, args(u64::MAX << 32 | 12)), EINVAL);
}

fn sigevent_must_be_readable_completely(m: &Machine) {
    let id = m.bytes(4);
    assert_eq!(m.raw_create(MONOTONIC, m.nothing(), id), EFAULT);
    assert_eq!(m.raw_create(MONOTONIC, u64::MAX - 63, id), EFAULT);
    // All 64 bytes must be readable, although those after the first 20 are ignored.
    for bytes in [8, 20, EVENT - 1] {
        assert_eq!(m.raw_create(MONOTONIC, m.before_nothing(bytes), id), EFAULT, "{bytes} bytes of it");
    }
    // All bytes are zero, which means signal 0.
    assert_eq!(m.raw_create(MONOTONIC, m.before_nothing(EVENT), id), EINVAL);
}

fn sigevent_need_not_be_aligned(m: &Machine) {
    let (event, id) = (m.bytes(EVENT + 8) + 1, m.bytes(4));
    m.put(event + 12, &libc::SIGEV_NONE.to_ne_bytes());
    assert_eq!(m.raw_create(MONOTONIC, event, id), 0);
}

fn id_must_have_a_place(m: &Machine) {
    let event = m.event(NONE);
    for place in [0, m.nothing(), m.read_only(), m.before_read_only(2), u64::MAX - 3] {
        assert_eq!(m.raw_create(MONOTONIC, event, place), EFAULT, "{place:#x}");
    }
    let unaligned = m.bytes(8) + 1;
    assert_eq!(m.raw_create(MONOTONIC, event, unaligned), 0);
}

fn signals_are_1_to_64(m: &Machine) {
    for signal in [0, -1, 65, 127, i32::MAX, i32::MIN] {
        assert_eq!(m.try_create(MONOTONIC, Some(Event::signal(signal, 0))), EINVAL, "signal {signal}");
        let thread = Event { notify: libc::SIGEV_THREAD, ..Event::signal(signal, 0) };
        assert_eq!(m.try_create(MONOTONIC, Some(thread)), EINVAL, "signal {signal}");
        let other = Event::thread(signal, 0, m.system().other());
        assert_eq!(m.try_create(MONOTONIC, Some(other)), EINVAL, "signal {signal}");
    }
    // Also signals that C libraries reserve, and signals that cannot be blocked.
    for signal in [1, libc::SIGKILL, libc::SIGSTOP, 31, 32, 33, 34, 64] {
        assert!(m.try_create(MONOTONIC, Some(Event::signal(signal, 0))) >= 0, "signal {signal}");
    }
}

fn sigev_none_accepts_any_signal(m: &Machine) {
    for signal in [0, 65, -1] {
        assert!(m.try_create(MONOTONIC, Some(Event { signal, thread: -1, ..NONE })) >= 0);
    }
}

fn unknown_notifications_are_einval(m: &Machine) {
    let thread = m.system().other();
    for notify in [3, 5, 6, 7, 8, 12, -1, i32::MIN] {
        let event = Event { notify, ..Event::thread(SIGNAL, 0, thread) };
        assert_eq!(m.try_create(MONOTONIC, Some(event)), EINVAL, "sigev_notify {notify}");
    }
    for notify in [libc::SIGEV_SIGNAL, libc::SIGEV_NONE, libc::SIGEV_THREAD, libc::SIGEV_THREAD_ID] {
        let event = Event { notify, ..Event::thread(SIGNAL, 0, thread) };
        assert!(m.try_create(MONOTONIC, Some(event)) >= 0, "sigev_notify {notify}");
    }
}

fn thread_must_be_one_of_the_process(m: &Machine) {
    let of = |thread| m.try_create(MONOTONIC, Some(Event::thread(SIGNAL, 0, thread)));
    let (this, other) = (crate::common::asleep::thread_id(), m.system().other());
    assert!(of(this) >= 0);
    assert!(of(other) >= 0);
    #[cfg(target_os = "linux")]
    let parent = std::os::unix::process::parent_id() as i32;
    #[cfg(not(target_os = "linux"))]
    let parent = 2;
    for thread in [0, -1, i32::MAX, i32::MIN, parent, 1] {
        assert_eq!(of(thread), EINVAL, "thread {thread}");
    }
    m.system().end_other();
    assert_eq!(of(other), EINVAL);
}

/// The order of the checks is: the sigevent's memory, the clock, the limit, the sigevent's contents, the ID's memory.
fn sigevent_is_read_before_the_clock_is_checked(m: &Machine) {
    let id = m.bytes(4);
    for clock in [NO_CLOCK, libc::CLOCK_MONOTONIC_RAW, MONOTONIC] {
        assert_eq!(m.raw_create(clock, m.nothing(), id), EFAULT);
    }
}

fn clock_is_checked_before_the_sigevents_contents_and_the_id(m: &Machine) {
    let bad = m.event(Event::signal(0, 0));
    for place in [m.bytes(4), m.nothing(), 0] {
        for event in [bad, m.event(NONE), 0] {
            assert_eq!(m.raw_create(NO_CLOCK, event, place), EINVAL);
            assert_eq!(m.raw_create(libc::CLOCK_MONOTONIC_RAW, event, place), EOPNOTSUPP);
        }
    }
}

fn sigevents_contents_are_checked_before_the_id(m: &Machine) {
    assert_eq!(m.raw_create(MONOTONIC, m.event(Event::signal(0, 0)), m.nothing()), EINVAL);
    let first = m.create(MONOTONIC, NONE);
    // The ID has been allocated by then, but was not returned.
    let id = m.bytes(4);
    m.put_i32(id, -7);
    assert_eq!(m.raw_create(MONOTONIC, m.event(Event::signal(0, 0)), id), EINVAL);
    assert_eq!(m.get_i32(id), -7);
    assert_eq!(m.create(MONOTONIC, NONE), first + 2);
}

fn limit_is_checked_after_the_clock_and_before_the_rest(m: &Machine) {
    let first = m.create(MONOTONIC, NONE);
    m.system().leave_no_room();
    let bad = m.event(Event::signal(0, 0));
    assert_eq!(m.raw_create(MONOTONIC, m.nothing(), 0), EFAULT);
    assert_eq!(m.raw_create(NO_CLOCK, bad, 0), EINVAL);
    assert_eq!(m.raw_create(libc::CLOCK_MONOTONIC_RAW, bad, 0), EOPNOTSUPP);
    assert_eq!(m.raw_create(MONOTONIC, bad, 0), EAGAIN);
    assert_eq!(m.raw_create(MONOTONIC, m.event(NONE), m.bytes(4)), EAGAIN);
    assert_eq!(m.try_create(MONOTONIC, None), EAGAIN);
    // A requested ID is read before that check and allocated after it.
    assert_eq!(m.prctl(1), 0);
    assert_eq!(m.raw_create(MONOTONIC, bad, m.nothing()), EFAULT);
    assert_eq!(m.restore(-1, Some(NONE)), EINVAL);
    assert_eq!(m.restore(first, Some(NONE)), EAGAIN);
    m.system().leave_room();
    assert_eq!(m.restore(first, Some(NONE)), -(libc::EBUSY as isize));
}

on_every_machine![
    every_clock_that_supports_timers_has_them,
    clocks_without_timers_are_eopnotsupp,
    invalid_clock_ids_are_einval,
    clocks_of_devices_are_eopnotsupp,
    alarm_clocks_are_refused_last,
    clock_is_32_bits_of_its_register,
    sigevent_must_be_readable_completely,
    sigevent_need_not_be_aligned,
    id_must_have_a_place,
    signals_are_1_to_64,
    sigev_none_accepts_any_signal,
    unknown_notifications_are_einval,
    thread_must_be_one_of_the_process,
    sigevent_is_read_before_the_clock_is_checked,
    clock_is_checked_before_the_sigevents_contents_and_the_id,
    sigevents_contents_are_checked_before_the_id,
    limit_is_checked_after_the_clock_and_before_the_rest,
];
