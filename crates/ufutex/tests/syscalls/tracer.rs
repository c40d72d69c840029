//! Interrupting a thread without a signal handler: a child process stops the thread and continues it by ptrace(2), as a
//! debugger does.

use std::sync::OnceLock;

/// The reason why threads of this process cannot be traced, `None` if they can.
pub fn lack() -> Option<String> {
    static LACK: OnceLock<Option<String>> = OnceLock::new();
    LACK.get_or_init(|| {
        let (send, probe) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        std::thread::spawn(move || {
            let _ = send.send(crate::common::asleep::thread_id());
            let _ = ended.recv();
        });
        let status = trace(probe.recv().expect("the probe runs"));
        drop(end);
        (status != 0).then(|| format!("ptrace(2) of this process is not permitted here (step {status} of tracing)"))
    })
    .clone()
}

/// Stops the thread and continues it. Returns after the thread has been continued.
pub fn stop_and_continue(tid: i32) {
    assert_eq!(trace(tid), 0, "the thread could not be traced, though a probe could");
}

/// Returns 0 for success, or the number of the step that failed.
fn trace(tid: i32) -> i32 {
    // A process cannot trace its own threads. SAFETY: between fork(2) and _exit(2) the child only makes system calls.
    unsafe {
        let child = libc::fork();
        assert!(child >= 0, "fork: {}", std::io::Error::last_os_error());
        if child == 0 {
            libc::_exit(trace_in_child(tid));
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &mut status, 0), child);
        assert!(libc::WIFEXITED(status), "the tracer ended with {status:#x}");
        libc::WEXITSTATUS(status)
    }
}

/// # Safety
/// Must run in a child of fork(2).
unsafe fn trace_in_child(tid: i32) -> i32 {
    let none = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: requests that neither read nor write this process's memory.
    unsafe {
        if libc::ptrace(libc::PTRACE_SEIZE, tid, none, none) != 0 {
            return 1;
        }
        if libc::ptrace(libc::PTRACE_INTERRUPT, tid, none, none) != 0 {
            return 2;
        }
        if libc::waitpid(tid, std::ptr::null_mut(), libc::__WALL) != tid {
            return 3;
        }
        if libc::ptrace(libc::PTRACE_DETACH, tid, none, none) != 0 {
            return 4;
        }
    }
    0
}
