//! Observes from outside whether a thread sleeps in futex(2), and in which call: by /proc, or by what its platform
//! notes.

use std::time::{Duration, Instant};

#[cfg(target_os = "linux")]
use super::emulated::native_number;
use super::platforms::watched_call;
use super::{PATIENCE, libc};

/// The TID of the calling thread.
#[cfg(target_os = "linux")]
pub fn thread_id() -> i32 {
    // SAFETY: gettid(2) has no preconditions.
    unsafe { libc::gettid() }
}

/// Whether a thread with this TID is in the process.
#[cfg(target_os = "linux")]
pub fn is_there(thread: i32) -> bool {
    thread > 0 && std::path::Path::new(&format!("/proc/self/task/{thread}")).exists()
}

#[cfg(not(target_os = "linux"))]
pub use numbered::{is_there, thread_id};

/// Threads by numbers of the tests' own, on hosts whose threads have no TIDs.
#[cfg(not(target_os = "linux"))]
mod numbered {
    use std::collections::HashSet;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicI32, Ordering};

    /// The threads that have asked for their number and have not ended.
    static THREADS: Mutex<Option<HashSet<i32>>> = Mutex::new(None);
    static NEXT: AtomicI32 = AtomicI32::new(1000);

    struct Own(i32);

    impl Own {
        fn new() -> Self {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            THREADS.lock().expect("not poisoned").get_or_insert_default().insert(number);
            Self(number)
        }
    }

    impl Drop for Own {
        fn drop(&mut self) {
            THREADS.lock().expect("not poisoned").get_or_insert_default().remove(&self.0);
        }
    }

    thread_local! {
        static OWN: Own = Own::new();
    }

    /// The number of the calling thread.
    pub fn thread_id() -> i32 {
        OWN.with(|own| own.0)
    }

    /// Whether a thread with this number is in the process.
    pub fn is_there(thread: i32) -> bool {
        THREADS.lock().expect("not poisoned").get_or_insert_default().contains(&thread)
    }
}

/// Arguments of a futex(2) call that a thread sleeps in.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    pub op: u64,
    pub expected: u64,
    pub bits: u32,
}

impl Call {
    /// Whether a wait of the engine sleeps in this call: on a word of its own, or with a bit of its own on the word of a
    /// group. A thread that an interrupt may end sleeps while its word says "in use", 8. The engine's bucket locks sleep with
    /// an expected value of 1; locks of other libraries sleep with 2, or by a plain `FUTEX_WAIT`.
    pub fn is_of_the_engine(self) -> bool {
        let command = self.op as i32 & !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME);
        command == libc::FUTEX_WAIT_BITSET && (matches!(self.expected, 0 | 8) || self.bits != u32::MAX)
    }
}

/// Other hosts are not asked: a thread that has noted its sleep is queued, and sleeps or is about to.
#[cfg(not(target_os = "linux"))]
fn is_interruptible(_thread: i32) -> bool {
    true
}

/// Whether a thread is in an interruptible sleep. Before a futex call has queued the thread, it may be in an
/// uninterruptible sleep, for a page or for a lock of the kernel's memory management.
#[cfg(target_os = "linux")]
fn is_interruptible(thread: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap_or_default();
    // The thread's name stands in parentheses and may itself contain ") ".
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S'))
}

/// The number and the arguments of the system call that a thread sleeps in, `None` while the thread runs. The kernel
/// shows them only after the thread has left its CPU.
#[cfg(target_os = "linux")]
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

/// Other hosts do not show a thread's system call.
#[cfg(not(target_os = "linux"))]
pub fn sleeps_in(_thread: i32) -> Option<(libc::c_long, [u64; 6])> {
    None
}

/// The futex(2) call that a thread sleeps in. The thread is queued by then.
pub fn futex_call(thread: i32) -> Option<Call> {
    if let Some(call) = watched_call(thread) {
        return call.filter(|_| is_interruptible(thread));
    }
    let (number, [_, op, expected, _, _, bits]) = sleeps_in(thread)?;
    // If it has begun to sleep by `Watched` meanwhile, the call is that of a condition variable, whose word says nothing.
    let is_futex = number == libc::SYS_futex && watched_call(thread).is_none();
    is_futex.then_some(Call { op, expected, bits: bits as u32 })
}

/// Waits until `condition` holds; panics with `what` if it never does.
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < PATIENCE, "still not so after {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_micros(50));
    }
}
