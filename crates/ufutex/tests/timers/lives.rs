//! Timers across fork(2) and execve(2). On the kernel only: for a fork an embedder makes a new `Timers`, and for an
//! exec it calls `Timers::clear`.

use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::alone::alone;
use crate::common::errno::EINVAL;
use crate::kernel::{is_as_described, machine};
use crate::machine::HOUR;
use crate::memory::{NONE, Spec};

const MONOTONIC: i32 = libc::CLOCK_MONOTONIC;

/// Runs `child` in a forked process and returns its result, which must be below 256.
fn in_a_fork(child: impl FnOnce() -> u8) -> u8 {
    // SAFETY: the child makes system calls on memory that is already mapped, and exits without unwinding.
    match unsafe { libc::fork() } {
        0 => {
            let result = child();
            // SAFETY: exits the child.
            unsafe { libc::_exit(result.into()) }
        }
        process => {
            let mut status = 0;
            // SAFETY: the status is writable, and the process is a child of this one.
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

/// execve(2) deletes the timers and resets the mode of restoring, but keeps the ID counter.
#[test]
fn exec_keeps_the_id_counter() {
    if !is_as_described() {
        return;
    }
    let name = "lives::exec_keeps_the_id_counter";
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
