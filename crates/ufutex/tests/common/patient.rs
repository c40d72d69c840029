//! Runs code that hangs when a test fails.

use std::sync::mpsc::{RecvTimeoutError, channel};

use super::PATIENCE;

/// Runs `f` on a new thread. If `f` hangs, the test fails and names `what`.
pub fn within_patience<R: Send + 'static>(what: &str, f: impl FnOnce() -> R + Send + 'static) -> R {
    let (send, ended) = channel();
    let thread = std::thread::spawn(move || _ = send.send(f()));
    match ended.recv_timeout(PATIENCE) {
        Ok(result) => result,
        Err(RecvTimeoutError::Timeout) => panic!("{what} hangs"),
        Err(RecvTimeoutError::Disconnected) => match thread.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => unreachable!("it has sent its result"),
        },
    }
}
