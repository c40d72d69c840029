//! Ctrl-C. The first one asks: loops look at [`asked`] between two samples, end with what they have, and the command
//! exits with [`EXIT`]. The second one ends the process at once.
//!
//! A signal is a flag that somebody reads, and no thread of ours waits for it: that would be one more thread beside
//! those that are measured.

use anyhow::{Context, Result};
use lab_terminal::stderr;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

/// What an interrupted command ends with: 128 and SIGINT's number, as a shell would say.
pub const EXIT: u8 = 130;
/// How soon somebody who sleeps or waits for a child sees the flag.
const LOOK: Duration = Duration::from_millis(20);

static ASKED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// From now on Ctrl-C asks. Not where SIGINT is ignored, as in a script's background: there it stays so.
pub fn watch() -> Result<()> {
    if is_ignored() {
        return Ok(());
    }
    // In this order: the handler that is registered first sees the flag of the signal before.
    signal_hook::flag::register_conditional_shutdown(libc::SIGINT, EXIT.into(), ASKED.clone())
        .and_then(|_| signal_hook::flag::register(libc::SIGINT, ASKED.clone()))
        .context("cannot watch for Ctrl-C")?;
    Ok(())
}

/// Whether the user wants it to end. One load: loops may ask as often as they like.
#[inline]
pub fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}

/// Tells how much there is, where it is not all.
pub fn tell(made: usize, all: usize, what: &str) {
    if made < all {
        stderr::say(format_args!("interrupted: {made} of {all} {what} were made"));
    }
}

/// Sleeps for `length`, or until Ctrl-C.
pub fn sleep(length: Duration) {
    let end = Instant::now() + length;
    while !asked() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        std::thread::sleep(left.min(LOOK));
    }
}

/// A child that takes one sample: the terminal sends Ctrl-C to all processes of a group, and a sample that has begun is
/// finished.
pub fn shield(sample: &mut Command) -> &mut Command {
    sample.process_group(0)
}

/// Runs a child that may take long, with nothing on its stdin, and ends it where the user wants that.
pub fn output(command: &mut Command) -> Result<Output> {
    let mut child = command
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()?;
    let stderr = child.stderr.take().context("a child's stderr")?;
    let reader = std::thread::spawn(move || std::io::read_to_string(stderr).unwrap_or_default());
    let status = loop {
        if asked() {
            // It may have ended by itself.
            let _ = child.kill();
        }
        if let Some(status) = child.try_wait()? {
            break status;
        }
        std::thread::sleep(LOOK);
    };
    // A grandchild may hold its end of the pipe for longer than somebody who has pressed Ctrl-C waits.
    let stderr = if asked() { String::new() } else { reader.join().unwrap_or_default() };
    Ok(Output { status, stdout: Vec::new(), stderr: stderr.into_bytes() })
}

fn is_ignored() -> bool {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: room for the answer, which is there if the call succeeds; nothing is changed.
    unsafe {
        libc::sigaction(libc::SIGINT, std::ptr::null(), action.as_mut_ptr()) == 0
            && action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_signal_nobody_has_asked_and_a_sleep_is_as_long_as_it_is() {
        let start = Instant::now();
        sleep(Duration::from_millis(30));
        assert!(!asked() && start.elapsed() >= Duration::from_millis(30));
    }

    #[test]
    fn what_a_child_complains_about_is_kept() -> Result<()> {
        let output = output(Command::new("sh").args(["-c", "echo out; echo no >&2; exit 3"]))?;
        assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(3), &b"no\n"[..]));
        Ok(())
    }
}
