//! Undoes what Rust's runtime does to a process before `main`, so that the program does not inherit it. The runtime
//! ignores SIGPIPE, and opens those of stdin, stdout and stderr that are closed.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};

static IGNORED_SIGPIPE: AtomicBool = AtomicBool::new(false);
/// Bit n means that descriptor n was closed.
static CLOSED: AtomicU8 = AtomicU8::new(0);

/// libc calls this before the runtime starts.
#[used]
#[unsafe(link_section = ".init_array")]
static RECORD: extern "C" fn() = record;

extern "C" fn record() {
    let mut closed = 0;
    for descriptor in 0..3 {
        // SAFETY: the call takes only numbers and changes nothing.
        if unsafe { libc::fcntl(descriptor, libc::F_GETFD) } < 0 {
            closed |= 1 << descriptor;
        }
    }
    CLOSED.store(closed, Relaxed);
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: `action` has room for the result, and is read only if the call succeeded.
    let handler = unsafe {
        (libc::sigaction(libc::SIGPIPE, std::ptr::null(), action.as_mut_ptr()) == 0)
            .then(|| action.assume_init().sa_sigaction)
    };
    IGNORED_SIGPIPE.store(handler == Some(libc::SIG_IGN), Relaxed);
}

/// Restores the initial state. After that, nothing can be printed on streams that were closed.
pub fn put_back() {
    let handler = if IGNORED_SIGPIPE.load(Relaxed) { libc::SIG_IGN } else { libc::SIG_DFL };
    // SAFETY: the call installs no handler.
    unsafe { libc::signal(libc::SIGPIPE, handler) };
    for descriptor in 0..3 {
        if CLOSED.load(Relaxed) & 1 << descriptor != 0 {
            // SAFETY: the runtime opened the descriptor. Only the report of a failure would use it.
            unsafe { libc::close(descriptor) };
        }
    }
}
