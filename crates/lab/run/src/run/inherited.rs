//! What Rust's runtime changes of a process before `main`, and the program is not to inherit: it ignores SIGPIPE, and opens
//! whichever of stdin, stdout and stderr are closed.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};

static IGNORED_SIGPIPE: AtomicBool = AtomicBool::new(false);
/// Bit n: the descriptor n was closed.
static CLOSED: AtomicU8 = AtomicU8::new(0);

/// Run by libc before the runtime begins.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    let mut closed = 0;
    for descriptor in 0..3 {
        // SAFETY: asks about a number.
        if unsafe { libc::fcntl(descriptor, libc::F_GETFD) } < 0 {
            closed |= 1 << descriptor;
        }
    }
    CLOSED.store(closed, Relaxed);
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: room for the answer, which is there if the call succeeds.
    let handler = unsafe {
        (libc::sigaction(libc::SIGPIPE, std::ptr::null(), action.as_mut_ptr()) == 0)
            .then(|| action.assume_init().sa_sigaction)
    };
    IGNORED_SIGPIPE.store(handler == Some(libc::SIG_IGN), Relaxed);
}

/// Puts back what it was. Afterwards nothing can be told on streams that were closed.
pub fn put_back() {
    let handler = if IGNORED_SIGPIPE.load(Relaxed) { libc::SIG_IGN } else { libc::SIG_DFL };
    // SAFETY: no handler is installed.
    unsafe { libc::signal(libc::SIGPIPE, handler) };
    for descriptor in 0..3 {
        if CLOSED.load(Relaxed) & 1 << descriptor != 0 {
            // SAFETY: the runtime's, which nobody uses but to tell of a failure.
            unsafe { libc::close(descriptor) };
        }
    }
}
