//! Observes from outside, by /proc, whether a thread sleeps in futex(2), and in which call.

use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

use super::PATIENCE;
use super::emulated::native_number;
use super::platforms::watched_call;

/// The TID of the calling thread.
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

    /// Whether a wait of the engine sleeps in this call. The engine's bucket locks sleep with an expected value of 1;
    /// locks of other libraries sleep with 2, or by a plain `FUTEX_WAIT`.
    pub fn is_of_the_engine(self) -> bool {
        let command = self.op as i32 & !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME);
        command == libc::FUTEX_WAIT_BITSET && self.expected == 0
    }
}

/// Whether a thread is in an interruptible sleep. Before a futex call has queued the thread, it may be in an
/// uninterruptible sleep, for a page or for a lock of the kernel's memory management.
fn is_interruptible(thread: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap_or_default();
    // The thread's name stands in parentheses and may itself contain ") ".
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S'))
}

/// The number and the arguments of the system call that a thread sleeps in, `None` while the thread runs. The kernel
/// shows them only after the thread has left its CPU.
pub fn sleeps_in(thread: i32) -> Option<(libc::c_long, [u64; 6])> {
    if !is_interruptible(thread) {
        return None;
    }
    let line = std::fs::read_to_string(format!("/proc/self/task/{thread}/syscall")).ok()?;
    let mut fields = line.split_ascii_whitespace();
    let number = native_number(fields.next()?.parse().ok()?);
    let mut args = [0; 6];
    for arg in &mut args {
        *arg = u64::from_str_radix(fields.next()?.trim_start_matches("0x"), 16).ok()?;
    }
    Some((number, args))
}

/// The futex(2) call that a thread sleeps in. The thread is queued by then.
pub fn futex_call(thread: i32) -> Option<Call> {
    if let Some(call) = watched_call(thread) {
        return is_interruptible(thread).then_some(call);
    }
    let (number, [address, op, expected, ..]) = sleeps_in(thread)?;
    (number == libc::SYS_futex).then_some(Call { address, op, expected })
}

/// Waits until `condition` holds; panics with `what` if it never does.
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < PATIENCE, "still not so after {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_micros(50));
    }
}
