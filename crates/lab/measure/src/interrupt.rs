//! Ctrl-C, and SIGTERM, which counts as Ctrl-C. The first one requests the end: loops check [`requested`] between
//! samples, end with the samples that they have, and the command exits with [`EXIT`]. The second one ends the process at
//! once.
//!
//! The signal handler sets a flag, and loops poll it. A thread that waits for signals would disturb the others.

use anyhow::{Context, Result, ensure};
use lab_terminal::stderr;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

/// Exit status of an interrupted command, by either signal: 128 + SIGINT, as in a shell.
pub const EXIT: u8 = 130;
/// How often a thread that sleeps or waits for a child checks the flag.
const POLL: Duration = Duration::from_millis(20);

static REQUESTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Installs the handlers for Ctrl-C and SIGTERM. If one of them is ignored, as SIGINT is in a script's background job, it stays
/// ignored.
pub fn watch() -> Result<()> {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        if is_ignored(signal) {
            continue;
        }
        // The order matters: the first handler ends the process if the flag is set, and the second one sets the flag.
        signal_hook::flag::register_conditional_shutdown(signal, EXIT.into(), REQUESTED.clone())
            .and_then(|_| signal_hook::flag::register(signal, REQUESTED.clone()))
            .context("cannot install the handlers of SIGINT and SIGTERM")?;
    }
    Ok(())
}

/// Whether SIGINT, as by Ctrl-C, or SIGTERM has requested the end. Costs one load, so loops may call it often.
#[inline]
pub fn requested() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}

/// Reports an incomplete result on stderr.
pub fn report_incomplete(made: usize, all: usize, what: &str) {
    if made < all {
        stderr::say(format_args!("interrupted: {made} of {all} {what} were made"));
    }
}

/// Sleeps for `length`, or until Ctrl-C.
pub fn sleep(length: Duration) {
    let end = Instant::now() + length;
    while !requested() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        std::thread::sleep(left.min(POLL));
    }
}

/// Puts a child that takes one sample into a process group of its own. The terminal sends Ctrl-C to a whole group, and
/// a sample that has begun should be finished.
///
/// posix_spawn(3), which the standard library uses otherwise, gives the child the default handlers while it is still in this
/// process's group: a Ctrl-C in between would kill it. A child of fork(2) keeps this process's handlers until exec(2), and
/// the first Ctrl-C only sets the flag in its copy of the memory. A function to run before exec(2) makes it fork(2).
pub fn in_own_group(sample: &mut Command) -> &mut Command {
    // SAFETY: the function does nothing, so nothing that is unsafe after fork(2).
    unsafe { sample.process_group(0).pre_exec(|| Ok(())) }
}

/// In a child: has the kernel kill it when the thread that started it ends, however that happens.
pub fn end_with_parent(parent: u32) -> Result<()> {
    // SAFETY: the call takes numbers and changes no memory of this process.
    let failed = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong) } != 0;
    ensure!(!failed, "prctl: {}", std::io::Error::last_os_error());
    // If the parent ended before the call, there is no signal, and the child has another parent.
    ensure!(std::os::unix::process::parent_id() == parent, "process {parent}, which started this one, has ended");
    Ok(())
}

/// Runs a child that may take long, with an empty stdin. Ctrl-C kills it.
pub fn output(command: &mut Command) -> Result<Output> {
    let mut child = command
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()?;
    let stderr = child.stderr.take().context("a child's stderr")?;
    let reader = std::thread::spawn(move || std::io::read_to_string(stderr).unwrap_or_default());
    let status = loop {
        if requested() {
            // This fails if the child has ended already.
            let _ = child.kill();
        }
        if let Some(status) = child.try_wait()? {
            break status;
        }
        std::thread::sleep(POLL);
    };
    // A grandchild may keep the pipe open for long, so its output is not waited for after Ctrl-C.
    let stderr = if requested() { String::new() } else { reader.join().unwrap_or_default() };
    Ok(Output { status, stdout: Vec::new(), stderr: stderr.into_bytes() })
}

fn is_ignored(signal: libc::c_int) -> bool {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: `action` has room for the result, and is read only if the call succeeded. The call changes nothing.
    unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) == 0
            && action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_signal_the_flag_is_clear_and_a_sleep_takes_its_time() {
        let start = Instant::now();
        sleep(Duration::from_millis(30));
        assert!(!requested() && start.elapsed() >= Duration::from_millis(30));
    }

    #[test]
    fn the_stderr_of_a_child_is_kept() -> Result<()> {
        let output = output(Command::new("sh").args(["-c", "echo out; echo no >&2; exit 3"]))?;
        assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(3), &b"no\n"[..]));
        Ok(())
    }
}
