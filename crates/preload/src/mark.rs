//! The mark on the library's own system calls: a value in an argument that the kernel ignores. Marked calls pass the
//! filter of `--trap`. If a filter of the program stops one, the handler of SIGSYS recognises it by the mark.

use crate::raw::COOKIE;

/// Where a call carries the mark.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mark {
    /// The argument with this index is [`COOKIE`].
    Whole(u8),
    /// The argument with this index is an `int`. Its upper half is the lower half of [`COOKIE`].
    Upper(u8),
}

/// The upper half of an argument.
pub const UPPER_HALF: u64 = 0xffff_ffff << 32;

const UPPER_COOKIE: u64 = COOKIE << 32;
const _: () = assert!(UPPER_COOKIE != 0);

/// `FUTEX_CMP_REQUEUE_PI` on private words.
pub const PRIVATE_CMP_REQUEUE_PI: u32 = (libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CMP_REQUEUE_PI) as u32;

impl Mark {
    /// Where a call with this number carries the mark. `op` is the second argument, which is read for futex(2) only.
    pub const fn of(number: i64, op: u64) -> Self {
        match number {
            // It uses all six arguments.
            libc::SYS_futex if op as u32 == PRIVATE_CMP_REQUEUE_PI => Self::Upper(2),
            // For waits and wakes, which do not use a second word.
            libc::SYS_futex => Self::Whole(4),
            // They use all six arguments.
            libc::SYS_pselect6 | libc::SYS_epoll_pwait | libc::SYS_epoll_pwait2 => Self::Upper(0),
            // The program executes the call again with the mark, and both threads keep the mark in this register. In
            // the register of the sixth argument it would mark their next calls. The kernel reads 32 bits of the flags.
            libc::SYS_clone => Self::Upper(0),
            // The program executes these two again with the mark in the register of the fourth argument, in which no
            // other call is marked. If a thread leaves that register as it is, its next clone3 or pkey_alloc passes the
            // filter.
            libc::SYS_clone3 | libc::SYS_pkey_alloc => Self::Whole(3),
            _ => Self::Whole(5),
        }
    }

    fn is_in(self, args: &[u64; 6]) -> bool {
        match self {
            Self::Whole(index) => args[usize::from(index)] == COOKIE,
            Self::Upper(index) => args[usize::from(index)] & UPPER_HALF == UPPER_COOKIE,
        }
    }
}

/// Marks a call of the program, so that it passes the filter.
pub fn put(number: i64, args: &mut [u64; 6]) {
    match Mark::of(number, args[1]) {
        Mark::Whole(index) => args[usize::from(index)] = COOKIE,
        Mark::Upper(index) => {
            let arg = &mut args[usize::from(index)];
            *arg = *arg & !UPPER_HALF | UPPER_COOKIE;
        }
    }
}

/// Whether a call is one of the library's own.
pub fn is_own(number: i64, args: &[u64; 6]) -> bool {
    // Whatever their number, the engine marks its calls in the fifth argument (`ufutex::syscall::OWN_CALL`), and
    // `raw::own` marks its calls in the sixth.
    Mark::of(number, args[1]).is_in(args) || args[4] == COOKIE || args[5] == COOKIE || is_probe(number, args)
}

/// Asks whether the filter is installed: a private wake with the empty bitset, which the kernel refuses. The mark is
/// where the filter does not look for it, so the call traps.
pub const FUTEX_PROBE: [u64; 6] = [0, (libc::FUTEX_WAKE_BITSET | libc::FUTEX_PRIVATE_FLAG) as u64, 1, COOKIE, 0, 0];

/// As [`FUTEX_PROBE`], for the part of the filter that `--timers` adds: timer_getoverrun(2) of no timer.
pub const TIMERS_PROBE: [u64; 6] = [u64::MAX, 0, 0, COOKIE, 0, 0];

/// Whether a call is one of the two probes. The mark alone does not say that: a `clone3` leaves it in the register of
/// the fourth argument, and the program's next call may not set that register.
pub fn is_probe(number: i64, args: &[u64; 6]) -> bool {
    match number {
        libc::SYS_futex => *args == FUTEX_PROBE,
        libc::SYS_timer_getoverrun => *args == TIMERS_PROBE,
        _ => false,
    }
}
