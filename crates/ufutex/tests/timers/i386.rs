//! The system calls of 32-bit programs. The kernel gets them from this process, which makes them as i386 code does.
//! `timer_getoverrun` and `timer_delete` have no arguments of another size.

use std::time::Duration;

use ufutex::timer::CompatTimerCall::{self, Create, GettimeTime32, GettimeTime64, Prctl, SettimeTime32, SettimeTime64};
use ufutex::timer::TimerCall;

use crate::common::errno::{EFAULT, EINVAL, EOPNOTSUPP};
use crate::common::libc;
use crate::common::skipped::skip;
use crate::machine::{HOUR, MS, Machine, now};
use crate::on_every_machine;

const MONOTONIC: u32 = libc::CLOCK_MONOTONIC as u32;
const SIGNAL: u32 = libc::SIGUSR1 as u32;
const SIGEV_SIGNAL: u32 = libc::SIGEV_SIGNAL as u32;
const SIGEV_NONE: u32 = libc::SIGEV_NONE as u32;
const SIGEV_THREAD_ID: u32 = libc::SIGEV_THREAD_ID as u32;
const ABSOLUTE: u32 = libc::TIMER_ABSTIME as u32;
const NOBODY: u32 = 999;
/// What the upper half of a register holds, which does not count.
const JUNK: u64 = 0x7777 << 32;

/// Whether the kernel can be asked. Prints the reason if not.
fn is_there(m: &Machine) -> bool {
    let lack = if m.system().is_kernel() { crate::common::int_80::lack() } else { None };
    lack.inspect(|reason| skip(reason)).is_none()
}

fn call(m: &Machine, call: CompatTimerCall, args: &[u32]) -> isize {
    let mut registers = [JUNK; 6];
    registers.iter_mut().zip(args).for_each(|(register, &arg)| *register |= u64::from(arg));
    m.call(TimerCall::Compat(call), registers)
}

/// Writes `words` to memory, and returns their address.
fn words(m: &Machine, words: &[u32]) -> u32 {
    let at = m.bytes(4 * words.len() as u64);
    words.iter().zip(0..).for_each(|(&word, i)| m.put_i32(at + 4 * i, word as i32));
    low(at)
}

fn low(address: u64) -> u32 {
    u32::try_from(address).expect("the memory is low")
}

fn read<const N: usize>(m: &Machine, at: u32) -> [u32; N] {
    std::array::from_fn(|i| m.get_i32(u64::from(at) + 4 * i as u64) as u32)
}

#[track_caller]
fn create(m: &Machine, event: [u32; 4]) -> u32 {
    let (event, id) = (words(m, &event), words(m, &[u32::MAX]));
    assert_eq!(call(m, Create, &[MONOTONIC, event, id]), 0);
    read::<1>(m, id)[0]
}

#[track_caller]
fn set(m: &Machine, how: CompatTimerCall, timer: u32, spec: &[u32]) {
    assert_eq!(call(m, how, &[timer, 0, words(m, spec), 0]), 0, "{spec:?}");
}

/// The interval and the remaining time that `timer_gettime` shows.
#[track_caller]
fn get(m: &Machine, timer: u32) -> [u32; 4] {
    let at = words(m, &[0xaaaa_aaaa; 5]);
    assert_eq!(call(m, GettimeTime32, &[timer, at]), 0);
    let [setting @ .., behind] = read::<5>(m, at);
    assert_eq!(behind, 0xaaaa_aaaa, "sixteen bytes are written");
    setting
}

/// As [`get`], by `timer_gettime64`.
#[track_caller]
fn get64(m: &Machine, timer: u32) -> [u64; 4] {
    let at = words(m, &[0xaaaa_aaaa; 8]);
    assert_eq!(call(m, GettimeTime64, &[timer, at]), 0);
    let halves = read::<8>(m, at);
    std::array::from_fn(|i| u64::from(halves[2 * i]) | u64::from(halves[2 * i + 1]) << 32)
}

fn settings_are_the_same_by_both_sizes(m: &Machine) {
    if !is_there(m) {
        return;
    }
    let timer = create(m, [0, 0, SIGEV_NONE, 0]);
    set(m, SettimeTime32, timer, &[5, 6, 3600, 0]);
    let [seconds, nanoseconds, left, _] = get(m, timer);
    assert_eq!([seconds, nanoseconds], [5, 6]);
    assert!([3599, 3600].contains(&left), "{left} s");
    let [seconds, nanoseconds, left, _] = get64(m, timer);
    assert_eq!([seconds, nanoseconds], [5, 6]);
    assert!([3599, 3600].contains(&left), "{left} s");
    let (new, old) = (words(m, &[7, 0, 8, 0, 7200, 0, 0, 0]), words(m, &[0; 4]));
    assert_eq!(call(m, SettimeTime64, &[timer, 0, new, 0]), 0);
    let none = words(m, &[0; 4]);
    assert_eq!(call(m, SettimeTime32, &[timer, 0, none, old]), 0);
    let [seconds, nanoseconds, left, _] = read(m, old);
    assert_eq!([seconds, nanoseconds], [7, 8]);
    assert!([7199, 7200].contains(&left), "{left} s");
}

fn absolute_times_of_both_sizes_count_from_the_clocks_beginning(m: &Machine) {
    if !is_there(m) {
        return;
    }
    let timer = create(m, [0, 0, SIGEV_NONE, 0]);
    let at = (now(libc::CLOCK_MONOTONIC) + HOUR).as_secs() as u32;
    for (how, spec) in [(SettimeTime32, &[0, 0, at, 5][..]), (SettimeTime64, &[0, 0, 0, 0, at, 0, 5, 0])] {
        assert_eq!(call(m, how, &[timer, ABSOLUTE, words(m, spec), 0]), 0);
        let [_, _, left, _] = get(m, timer);
        assert!(left <= 3600 && left > 1800, "{left} s");
    }
}

fn narrow_fields_are_signed(m: &Machine) {
    if !is_there(m) {
        return;
    }
    let timer = create(m, [0, 0, SIGEV_NONE, 0]);
    for [seconds, nanoseconds] in [[u32::MAX, 0], [1 << 31, 5], [0, 1_000_000_000], [0, u32::MAX], [5, 1 << 31]] {
        for spec in [[seconds, nanoseconds, 3600, 0], [0, 0, seconds, nanoseconds]] {
            assert_eq!(call(m, SettimeTime32, &[timer, 0, words(m, &spec), 0]), EINVAL, "{spec:?}");
        }
    }
    set(m, SettimeTime32, timer, &[i32::MAX as u32, 999_999_999, 3600, 0]);
    assert_eq!(get(m, timer)[..2], [i32::MAX as u32, 999_999_999]);
}

/// The padding above the nanoseconds holds whatever a program left there.
fn upper_halves_of_nanoseconds_do_not_count(m: &Machine) {
    if !is_there(m) {
        return;
    }
    let timer = create(m, [0, 0, SIGEV_NONE, 0]);
    set(m, SettimeTime64, timer, &[5, 0, 6, 0xdead_beef, 3600, 0, 0, u32::MAX]);
    assert_eq!(get64(m, timer)[..2], [5, 6]);
    // The upper half of the seconds does.
    for spec in
        [[0, 1 << 31, 0, 0, 3600, 0, 0, 0], [0, 0, 0, 0, 1, u32::MAX, 0, 0], [0, 0, 1_000_000_000, 0, 1, 0, 0, 0]]
    {
        assert_eq!(call(m, SettimeTime64, &[timer, 0, words(m, &spec), 0]), EINVAL, "{spec:?}");
    }
}

fn longer_times_show_their_lower_bits(m: &Machine) {
    if !is_there(m) {
        return;
    }
    let timer = create(m, [0, 0, SIGEV_NONE, 0]);
    set(m, SettimeTime64, timer, &[5, 2, 6, 0, 3600, 1, 0, 0]);
    let [seconds, nanoseconds, left, _] = get(m, timer);
    assert_eq!([seconds, nanoseconds], [5, 6]);
    assert!([3599, 3600].contains(&left), "{left} s");
    assert_eq!(get64(m, timer)[..2], [5 + (2 << 32), 6]);
}

fn settings_end_with_their_last_field(m: &Machine) {
    if !is_there(m) {
        return;
    }
    let timer = create(m, [0, 0, SIGEV_NONE, 0]);
    let readable = |bytes| low(m.before_nothing(bytes));
    let writable = |bytes| low(m.before_read_only(bytes));
    for (set, get, size) in [(SettimeTime32, GettimeTime32, 16), (SettimeTime64, GettimeTime64, 32)] {
        assert_eq!(call(m, set, &[timer, 0, 0, 0]), EINVAL);
        assert_eq!(call(m, set, &[timer, 0, readable(size), writable(size)]), 0);
        assert_eq!(call(m, get, &[timer, writable(size)]), 0);
        for bytes in [0, size / 2, size - 4] {
            assert_eq!(call(m, set, &[timer, 0, readable(bytes), 0]), EFAULT, "{bytes} bytes");
            assert_eq!(call(m, set, &[timer, 0, readable(size), writable(bytes)]), EFAULT, "{bytes} bytes");
            assert_eq!(call(m, get, &[timer, writable(bytes)]), EFAULT, "{bytes} bytes");
        }
        // Memory that begins in the last bytes of a 32-bit program's and goes on above them.
        assert_eq!(call(m, set, &[timer, 0, u32::MAX - 7, 0]), EFAULT);
        assert_eq!(call(m, get, &[NOBODY, 0]), EINVAL);
        assert_eq!(call(m, set, &[NOBODY, 0, low(m.nothing()), 0]), EFAULT);
        assert_eq!(call(m, set, &[NOBODY, 0, readable(size), low(m.nothing())]), EINVAL);
    }
}

fn values_have_32_bits(m: &Machine) {
    if !is_there(m) {
        return;
    }
    for value in [7, u32::MAX] {
        let timer = create(m, [value, SIGNAL, SIGEV_SIGNAL, 0]);
        set(m, SettimeTime32, timer, &[0, 0, 0, 1]);
        let info = m.take();
        assert_eq!((info.id as u32, info.signal as u32, info.value), (timer, SIGNAL, value.into()));
    }
    let other = m.system().other() as u32;
    let timer = create(m, [8, SIGNAL, SIGEV_THREAD_ID, other]);
    set(m, SettimeTime64, timer, &[0, 0, 0, 0, 0, 0, 1, 0]);
    let info = m.take_on_other();
    assert_eq!((info.id as u32, info.value), (timer, 8));
}

/// Without a sigevent the value is the timer's ID.
fn timer_without_a_sigevent_sends_sigalrm(m: &Machine) {
    if !is_there(m) {
        return;
    }
    let id = words(m, &[0]);
    assert_eq!(call(m, Create, &[MONOTONIC, 0, id]), 0);
    let [timer] = read(m, id);
    set(m, SettimeTime32, timer, &[0, 1_000_000, 0, 1]);
    let info = m.take();
    assert_eq!((info.id as u32, info.signal, info.value), (timer, libc::SIGALRM, timer.into()));
    m.pause(3 * MS);
    assert!(m.overrun(timer as i32) >= 0);
    assert_eq!(m.delete(timer as i32), 0);
}

fn sigevent_is_read_up_to_its_thread(m: &Machine) {
    if !is_there(m) {
        return;
    }
    let id = words(m, &[0]);
    let event = m.before_nothing(16);
    // The last bytes in front of the inaccessible page are zeroes, which means signal 0.
    assert_eq!(call(m, Create, &[MONOTONIC, low(event), id]), EINVAL);
    for bytes in [0, 4, 8, 12] {
        assert_eq!(call(m, Create, &[MONOTONIC, low(m.before_nothing(bytes)), id]), EFAULT, "{bytes} bytes");
    }
    assert_eq!(call(m, Create, &[MONOTONIC, u32::MAX - 15, id]), EFAULT);
    let none = words(m, &[0, 0, SIGEV_NONE, 0]);
    assert_eq!(call(m, Create, &[MONOTONIC, none, low(m.read_only())]), EFAULT);
    assert_eq!(
        call(m, Create, &[12, low(m.nothing()), id]),
        EFAULT,
        "the sigevent is read before the clock is checked"
    );
    assert_eq!(call(m, Create, &[12, none, id]), EINVAL);
    assert_eq!(call(m, Create, &[libc::CLOCK_MONOTONIC_RAW as u32, none, id]), EOPNOTSUPP);
}

fn ids_are_restored(m: &Machine) {
    if !is_there(m) {
        return;
    }
    assert_eq!(call(m, Prctl, &[77, 1, 0, 0, 0]), 0);
    let (none, id) = (words(m, &[0, 0, SIGEV_NONE, 0]), words(m, &[4711]));
    assert_eq!(call(m, Create, &[MONOTONIC, none, id]), 0);
    assert_eq!(read(m, id), [4711]);
    assert_eq!(call(m, Prctl, &[77, 2, 0, 0, 0]), 1);
    assert_eq!(call(m, Prctl, &[77, 0, 0, 0, 0]), 0);
    assert_eq!(m.get(4711).value(), Duration::ZERO);
}

on_every_machine![
    settings_are_the_same_by_both_sizes,
    absolute_times_of_both_sizes_count_from_the_clocks_beginning,
    narrow_fields_are_signed,
    upper_halves_of_nanoseconds_do_not_count,
    longer_times_show_their_lower_bits,
    settings_end_with_their_last_field,
    values_have_32_bits,
    timer_without_a_sigevent_sends_sigalrm,
    sigevent_is_read_up_to_its_thread,
    ids_are_restored,
];
