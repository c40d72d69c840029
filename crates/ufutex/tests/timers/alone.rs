//! Runs a test in a process of its own, because signals, timer IDs, the mode of restoring IDs and CPU time belong to a
//! process.
//!
//! The test binary is executed again for that one test, with the signals of timers blocked in all of its threads.

use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::common::PATIENCE;
use crate::common::emulated;
use crate::common::kernel::{pointer, syscall};
use crate::common::skipped::skip;

const MARK: &str = "UFUTEX_TIMERS_ALONE";

/// The signals that the timers of these tests send. Signals that end a failing test's process or report a fault are
/// left out.
pub const SIGNALS: u64 = {
    let mut left_out = 0;
    let mut i = 0;
    let others = [
        libc::SIGINT,
        libc::SIGQUIT,
        libc::SIGILL,
        libc::SIGTRAP,
        libc::SIGABRT,
        libc::SIGBUS,
        libc::SIGFPE,
        libc::SIGKILL,
        libc::SIGSEGV,
        libc::SIGTERM,
        libc::SIGCHLD,
        libc::SIGSTOP,
    ];
    while i < others.len() {
        left_out |= 1 << (others[i] - 1);
        i += 1;
    }
    !left_out
};

/// Runs `test` in a process of its own. `name` must be the full name of the calling test.
pub fn alone(name: &str, test: impl FnOnce()) {
    if std::env::var(MARK).is_ok_and(|marked| marked == name) {
        return test();
    }
    let mut child = start(name);
    let in_time = has_ended(&mut child);
    if !in_time {
        // The child has not been reaped, so its PID is still valid.
        let _ = child.kill();
    }
    let output = child.wait_with_output().expect("it can be waited for");
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(in_time, "{name} hangs:\n{said}");
    assert!(output.status.success(), "{name} fails by itself, {}:\n{said}", output.status);
    assert!(said.contains("1 passed"), "{name} is no test's name:\n{said}");
    said.lines().filter_map(|line| line.split_once("skipped: ")).for_each(|(_, reason)| skip(reason));
}

fn start(name: &str) -> Child {
    let mut command = emulated::command(std::env::current_exe().expect("the test knows its binary"));
    command.args(["--exact", name, "--nocapture", "--test-threads=1"]).env(MARK, name);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // SAFETY: the only call between fork and exec is one system call that reads a mask.
    unsafe {
        command.pre_exec(|| match set_mask(libc::SIG_BLOCK, SIGNALS) {
            0 => Ok(()),
            error => Err(std::io::Error::from_raw_os_error(-error as i32)),
        });
    }
    command.spawn().expect("the test binary can be executed")
}

/// Sets the signal mask by the system call, because libc does not change its own signals.
fn set_mask(how: i32, mask: u64) -> isize {
    // SAFETY: the mask is valid for the read.
    unsafe { syscall(libc::SYS_rt_sigprocmask, [how as u64, pointer(&raw const mask), 0, 8, 0, 0]) }
}

fn has_ended(child: &mut Child) -> bool {
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        if child.try_wait().expect("it can be waited for").is_some() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    false
}
