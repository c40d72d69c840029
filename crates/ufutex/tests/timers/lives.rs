//! What fork(2) and execve(2) leave of timers. On the kernel alone: an embedder makes a new `Timers` of the one, and calls
//! `Timers::clear` for the other.

use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::alone::alone;
use crate::common::errno::EINVAL;
use crate::kernel::{is_as_described, machine};
use crate::machine::HOUR;
use crate::memory::{NONE, Spec};

const MONOTONIC: i32 = libc::CLOCK_MONOTONIC;

/// Runs `child` in a process made by fork(2); what it returns must be below 256.
fn in_a_fork(child: impl FnOnce() -> u8) -> u8 {
    // SAFETY: the child makes system calls on memory that it has, and ends without unwinding.
    match unsafe { libc::fork() } {
        0 => {
            let result = child();
            // SAFETY: it never returns.
            unsafe { libc::_exit(result.into()) }
        }
        process => {
            let mut status = 0;
            // SAFETY: the status is writable; a child of our own.
            assert_eq!(unsafe { libc::waitpid(process, &mut status, 0) }, process);
            assert!(libc::WIFEXITED(status), "status {status:#x}");
            libc::WEXITSTATUS(status) as u8
        }
    }
}

#[test]
fn fork_inherits_no_timers_no_mode_and_no_counter() {
    if !is_as_described() {
        return;
    }
    alone("lives::fork_inherits_no_timers_no_mode_and_no_counter", || {
        let m = machine();
        let timers = [(); 3].map(|()| m.create(MONOTONIC, NONE));
        m.set(timers[0], Spec::once(HOUR));
        assert_eq!(m.prctl(1), 0);
        let result = in_a_fork(|| {
            let has_none = timers.iter().all(|&timer| m.delete(timer) == EINVAL && m.overrun(timer) == EINVAL);
            let mode = m.prctl(2);
            let first = m.try_create(MONOTONIC, Some(NONE));
            u8::from(has_none) + u8::from(mode == 0) * 2 + u8::from(first == 0) * 4
        });
        assert_eq!(result, 7);
        assert!(m.get(timers[0]).value() > HOUR / 2);
    });
}

const EXECUTED: &str = "UFUTEX_TIMERS_EXECUTED";

/// The timers and the mode of restoring are gone, but the counter goes on.
#[test]
fn exec_leaves_the_counter_alone() {
    if !is_as_described() {
        return;
    }
    let name = "lives::exec_leaves_the_counter_alone";
    alone(name, || {
        let m = machine();
        if std::env::var_os(EXECUTED).is_none() {
            for _ in 0..3 {
                m.create(MONOTONIC, NONE);
            }
            assert_eq!(m.prctl(1), 0);
            let mut command = Command::new("/proc/self/exe");
            command.args(["--exact", name, "--nocapture", "--test-threads=1"]).env(EXECUTED, "1");
            panic!("exec: {}", command.exec());
        }
        for id in 0..3 {
            assert_eq!(m.delete(id), EINVAL);
        }
        assert_eq!(m.prctl(2), 0);
        assert_eq!(m.create(MONOTONIC, NONE), 3);
    });
}
