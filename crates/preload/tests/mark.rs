//! Tests the mark on the library's own calls. The module is compiled alone here, because the whole library would
//! replace functions of libc.
#![cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
#![allow(dead_code, missing_docs)] // what only the rest of the library uses

#[path = "../src/mark.rs"]
mod mark;
#[path = "../src/raw.rs"]
mod raw;

use mark::{FUTEX_PROBE, PRIVATE_CMP_REQUEUE_PI, TIMERS_PROBE, is_own, is_probe, put};

const PRIVATE: i32 = libc::FUTEX_PRIVATE_FLAG;

/// The program's calls that the library makes again with a mark: the number, the second argument, and the bits of each
/// argument that the kernel reads.
const MARKED: &[(i64, u64, [u64; 6])] = {
    const ALL: u64 = u64::MAX;
    const INT: u64 = 0xffff_ffff;
    &[
        (libc::SYS_futex, libc::FUTEX_WAIT as u64, [ALL, INT, INT, ALL, 0, 0]),
        (libc::SYS_futex, libc::FUTEX_WAKE as u64, [ALL, INT, INT, 0, 0, 0]),
        (libc::SYS_futex, libc::FUTEX_WAIT_BITSET as u64, [ALL, INT, INT, ALL, 0, INT]),
        (libc::SYS_futex, libc::FUTEX_WAKE_BITSET as u64, [ALL, INT, INT, 0, 0, INT]),
        (libc::SYS_futex, PRIVATE_CMP_REQUEUE_PI as u64, [ALL, INT, INT, ALL, ALL, INT]),
        (libc::SYS_futex_waitv, 2, [ALL, INT, INT, ALL, INT, 0]),
        (SYS_FUTEX_REQUEUE, 0, [ALL, INT, INT, INT, 0, 0]),
        (libc::SYS_rt_sigsuspend, 8, [ALL, ALL, 0, 0, 0, 0]),
        (libc::SYS_ppoll, 1, [ALL, INT, ALL, ALL, ALL, 0]),
        (libc::SYS_pselect6, 0, [INT, ALL, ALL, ALL, ALL, ALL]),
        (libc::SYS_epoll_pwait, 0, [INT, ALL, INT, INT, ALL, ALL]),
        (libc::SYS_epoll_pwait2, 0, [INT, ALL, INT, ALL, ALL, ALL]),
        (libc::SYS_clone, 0, [INT, ALL, ALL, ALL, ALL, 0]),
        (libc::SYS_clone3, 64, [ALL, ALL, 0, 0, 0, 0]),
    ]
};

const SYS_FUTEX_REQUEUE: i64 = 456;

/// Arguments of a program's call. A negative `int` is sign-extended in its register.
fn programs(op: u64) -> [[u64; 6]; 3] {
    [[0, op, 0, 0, 0, 0], [7, op, 8, 9, 10, 11], [u64::MAX, op, u64::MAX, u64::MAX, u64::MAX, u64::MAX]]
}

#[test]
fn calls_with_a_mark_are_recognised_and_the_kernel_does_not_read_the_mark() {
    for (number, op, is_read) in MARKED {
        for before in programs(*op) {
            assert!(!is_own(*number, &before), "number {number}, {before:x?}");
            let mut args = before;
            put(*number, &mut args);
            assert!(is_own(*number, &args), "number {number}, {args:x?}");
            for i in 0..6 {
                assert_eq!(args[i] & is_read[i], before[i] & is_read[i], "number {number}, argument {i}");
            }
        }
    }
}

#[test]
fn calls_that_the_library_and_the_engine_make_are_recognised() {
    let prctl = [libc::PR_SET_NAME as u64, 0, 0, 0, 0, raw::COOKIE]; // as `raw::own` does
    assert!(is_own(libc::SYS_prctl, &prctl));
    let wait = (libc::FUTEX_WAIT_BITSET | PRIVATE) as u64;
    assert!(is_own(libc::SYS_futex, &[0x1000, wait, 0, 0, raw::COOKIE, u32::MAX.into()]));
    for (number, probe) in [(libc::SYS_futex, FUTEX_PROBE), (libc::SYS_timer_getoverrun, TIMERS_PROBE)] {
        assert!(is_own(number, &probe) && is_probe(number, &probe), "number {number}");
    }
    for number in [libc::SYS_futex, libc::SYS_sched_yield, libc::SYS_nanosleep] {
        assert!(is_own(number, &[0, 0, 0, 0, ufutex::syscall::OWN_CALL, u32::MAX.into()]), "number {number}");
    }
}

/// A value that `clone3` left in a register does not mark another call.
#[test]
fn mark_of_another_call_is_none() {
    let left = [0, 0, 0, raw::COOKIE, 0, 0];
    for number in [libc::SYS_futex, libc::SYS_timer_getoverrun, libc::SYS_clone, libc::SYS_pselect6, libc::SYS_prctl] {
        assert!(!is_own(number, &left) && !is_probe(number, &left), "number {number}");
    }
}
