//! Seeing whether a thread sleeps in futex(2), and in which call.

use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

use super::PATIENCE;

/// The number of the calling thread.
pub fn thread_id() -> i32 {
    // SAFETY: gettid(2) has no preconditions.
    unsafe { libc::gettid() }
}

/// The first arguments of a futex(2) call that a thread sleeps in.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    pub address: u64,
    pub op: u64,
    pub expected: u64,
}

impl Call {
    /// Whether this is a wait on `word`.
    pub fn is_on(self, word: &AtomicU32) -> bool {
        self.address == word.as_ptr().addr() as u64
    }

    /// Whether this is a thread of the engine that sleeps until it is woken, rather than until a bucket is unlocked
    /// (where 1 is expected) or until a lock of another library is free (2, or the plain `FUTEX_WAIT`).
    pub fn is_of_the_engine(self) -> bool {
        let command = self.op as i32 & !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME);
        command == libc::FUTEX_WAIT_BITSET && self.expected == 0
    }
}

/// Whether a thread sleeps until somebody wakes it, rather than for a page or a lock of the kernel's memory management:
/// that may happen within a futex call too, before it is queued.
pub fn is_interruptible(thread: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap_or_default();
    // The name, in parentheses, may hold anything.
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S'))
}

/// The futex(2) call that the thread sleeps in. The kernel answers only once the thread has really left its CPU, so it
/// is queued by then.
pub fn futex_call(thread: i32) -> Option<Call> {
    if !is_interruptible(thread) {
        return None;
    }
    let line = std::fs::read_to_string(format!("/proc/self/task/{thread}/syscall")).ok()?;
    let mut fields = line.split_ascii_whitespace();
    if fields.next()?.parse::<i64>() != Ok(libc::SYS_futex) {
        return None;
    }
    let mut number = || u64::from_str_radix(fields.next()?.trim_start_matches("0x"), 16).ok();
    Some(Call { address: number()?, op: number()?, expected: number()? })
}

/// Waits until `condition` holds; panics with `what` if it never does.
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < PATIENCE, "still not so after {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_micros(50));
    }
}
