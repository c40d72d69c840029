//! Puts a thread to sleep on a word with futex(2).

use std::sync::atomic::AtomicU32;

use engine::Clock;

/// How long to sleep.
#[derive(Clone, Copy)]
pub(crate) enum Sleep {
    Forever,
    /// Until the host's clock shows this time in nanoseconds.
    Until(Clock, u64),
    /// For this number of nanoseconds.
    For(u64),
}

/// Sleeps while `word` is 0. May return early.
pub(crate) fn sleep(word: &AtomicU32, sleep: Sleep) {
    let (op, ns) = match sleep {
        Sleep::Forever => (libc::FUTEX_WAIT_BITSET, None),
        Sleep::Until(Clock::Monotonic, ns) => (libc::FUTEX_WAIT_BITSET, Some(ns)),
        Sleep::Until(Clock::Realtime, ns) => (libc::FUTEX_WAIT_BITSET | libc::FUTEX_CLOCK_REALTIME, Some(ns)),
        Sleep::For(ns) => (libc::FUTEX_WAIT, Some(ns)),
    };
    let time = ns.map(|ns| libc::timespec {
        tv_sec: libc::time_t::try_from(ns / 1_000_000_000).unwrap_or(libc::time_t::MAX),
        tv_nsec: (ns % 1_000_000_000) as libc::c_long,
    });
    let time = time.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
    // SAFETY: the word and the time outlive the call, which writes to neither.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            op | libc::FUTEX_PRIVATE_FLAG,
            0,
            time,
            core::ptr::null::<u32>(),
            libc::FUTEX_BITSET_MATCH_ANY,
        )
    };
}

/// Wakes the thread that sleeps on `word`.
pub(crate) fn wake(word: &AtomicU32) {
    // SAFETY: a wake touches no memory.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1) };
}
