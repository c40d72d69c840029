//! What kind of lock a thread waited for, by the functions in which it did.

use crate::account::{self, MUTEX_WAITS, is_pi};
use crate::names::Frame;
use std::fmt;

/// A kind of lock, or of another thing that threads wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kind {
    /// As people call it.
    pub name: &'static str,
    /// One thread has it, and the others wait until that one gives it up. `None`: how threads use it says that.
    pub is_lock: Option<bool>,
    /// The word is a thread's own, on which it sleeps whatever lock it waits for. So the place where it waits says which.
    pub is_of_thread: bool,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

const fn kind(name: &'static str, is_lock: Option<bool>) -> Kind {
    Kind { name, is_lock, is_of_thread: false }
}

const fn of_thread(name: &'static str, is_lock: Option<bool>) -> Kind {
    Kind { name, is_lock, is_of_thread: true }
}

/// glibc's condition variable.
const CONDITION: Kind = kind("condition variable", Some(false));
/// For the end of a thread, whose TID is in the word until then.
pub const JOIN: Kind = kind("join", Some(false));
/// glibc's mutex.
const MUTEX: Kind = kind("mutex", Some(true));

/// Parts of functions' names, and the kind. The first that fits counts, so that what uses a condition variable of glibc comes
/// before the condition variable.
const KINDS: [(&[&str], Kind); 24] = [
    // The first has a name only with debug information.
    (&["take_gil", "PyEval_RestoreThread", "PyEval_AcquireThread"], kind("Python's GIL", Some(true))),
    (&["PyThread_acquire_lock", "PyMutex_Lock", "_PyMutex", "PySemaphore", "_PyParkingLot"], kind("Python lock", None)),
    (&["rb_mutex_lock", "rb_mutex_synchronize", "do_mutex_lock"], of_thread("Ruby mutex", Some(true))),
    (
        &["rb_native_mutex", "thread_sched_wait", "thread_sched_to_running", "gvl_acquire"],
        kind("Ruby's GVL", Some(true)),
    ),
    (
        &["caml_thread_leave_blocking", "caml_acquire_domain_lock", "st_masterlock_acquire"],
        kind("OCaml's master lock", Some(true)),
    ),
    (
        &["AbstractQueuedSynchronizer$ConditionObject", "ForkJoinPool.managedBlock", "ForkJoinPool.unmanagedBlock"],
        of_thread("Java condition", Some(false)),
    ),
    (&["Unsafe_Park", "Parker::park"], of_thread("Java's park", None)),
    // After Object.wait() a thread enters the monitor again.
    (&["ObjectMonitor::EnterI", "ObjectMonitor::ReenterI"], of_thread("Java monitor", Some(true))),
    (&["ObjectMonitor::wait"], of_thread("Java's Object.wait", Some(false))),
    (&["JavaThread::sleep"], of_thread("Java's Thread.sleep", Some(false))),
    (&["Monitor::wait"], of_thread("JVM's monitor", Some(false))),
    (&["ObjectMonitor", "PlatformMonitor", "PlatformMutex", "PlatformEvent"], of_thread("Java monitor", None)),
    // Its threads sleep until there is a goroutine to run. A goroutine that waits blocks no thread.
    (&["runtime.futex"], of_thread("Go's park", Some(false))),
    // MariaDB's and MySQL's, for tables and for GET_LOCK(). Its waiters sleep in a condition variable of their own.
    (&["MDL_wait::"], of_thread("metadata lock", Some(true))),
    (&["pthread_cond_"], CONDITION),
    (&["pthread_mutex_", "lll_lock"], MUTEX),
    (&["pthread_rwlock_"], kind("rwlock", Some(true))),
    (&["sem_wait", "sem_timedwait", "sem_clockwait", "new_sem_"], kind("semaphore", None)),
    (&["pthread_barrier_wait", "gomp_barrier", "gomp_team_barrier"], kind("barrier", Some(false))),
    (&["pthread_once", "__cxa_guard"], kind("once", Some(true))),
    (&["sys::sync::mutex::futex", "sys::sync::rwlock::futex"], kind("mutex", Some(true))),
    (&["parking_lot::raw_mutex", "parking_lot::raw_rwlock"], of_thread("mutex", Some(true))),
    (&["sys::sync::condvar", "parking_lot::condvar"], kind("condition variable", Some(false))),
    (&["thread_parking", "thread::park", "parking_lot_core"], of_thread("park", None)),
];

/// Prefixes of functions' names through which programs reach the kinds above: not where a program locks.
const BETWEEN: [&str; 21] = [
    "std::",
    "core::",
    "alloc::",
    "parking_lot",
    "lock_api",
    "pthread_",
    "__pthread",
    "___pthread",
    "sem_",
    "__gthread",
    "syscall",
    "__lll",
    "java.",
    "jdk.",
    // Java's own code in a map for perf(1).
    "Interpreter",
    "StubRoutines",
    "monitorenter_",
    "_complete_monitor_locking",
    "caml_",
    "rb_native_",
    "MDL_",
];
/// Libraries whose frames are not where a program locks.
const LIBRARIES: [&str; 6] =
    ["libc.so.6", "libpthread.so.0", "libstdc++.so.6", "libc++.so.1", "libgomp.so.1", "libjvm.so"];

/// The kind, by the frames of a wait and its operation.
pub fn of(frames: &[Frame], operation: u64) -> Kind {
    let names = frames.iter().take(12).filter_map(|frame| frame.function.as_deref());
    // Frames outside of `rb_vm_exec` are calls under way, such as `synchronize` of a lock that the thread holds.
    let names: Vec<&str> = names.take_while(|name| *name != "rb_vm_exec").collect();
    let fits = |parts: &[&str]| names.iter().any(|name| parts.iter().any(|part| name.contains(part)));
    let mut fitting = KINDS.iter().filter(|(parts, _)| fits(parts)).map(|(_, kind)| *kind);
    match fitting.next() {
        None if is_pi(operation) => kind("PI lock", Some(true)),
        None if operation == account::JOIN => JOIN,
        None if operation == account::ROBUST => MUTEX,
        None => kind("futex", None),
        // A thread that was woken takes the mutex again.
        Some(CONDITION) if MUTEX_WAITS.contains(&operation) || is_pi(operation) => MUTEX,
        Some(kind) => kind,
    }
}

/// The frame in which the program itself waits: the innermost one that is not in a library of locks.
pub fn caller(frames: &[Frame]) -> Option<&Frame> {
    let is_between = |frame: &&Frame| {
        let in_library = frame.module.as_deref().is_some_and(|module| LIBRARIES.contains(&module));
        let begins = |name: &str| BETWEEN.iter().any(|part| name.starts_with(part));
        let between = |name: &String| begins(name) || begins(without_type(name));
        let in_ruby = || frame.module.as_ref().is_some_and(|module| module.starts_with("libruby"));
        in_library || frame.function.as_ref().map_or_else(in_ruby, between)
    };
    let is_in_libc = |frame: &&Frame| frame.module.as_deref().is_some_and(|module| LIBRARIES[..2].contains(&module));
    let first = frames.iter().find(|frame| !is_in_libc(frame));
    let has = |frame: &Frame, part: &str| frame.function.as_ref().is_some_and(|name| name.contains(part));
    // Functions of Python itself lie between its lock and the program's function, if that has a name.
    let python = first.filter(|first| has(first, "Py")).and_then(|_| frames.iter().find(|frame| has(frame, "py::")));
    python.or_else(|| frames.iter().find(|frame| !is_between(frame))).or(first).or(frames.first())
}

/// The function's name without the type that it returns, which functions of Java and of C++'s templates have, or the `<` of Rust.
fn without_type(name: &str) -> &str {
    match name.split_once(' ') {
        Some((first, rest)) if !first.contains(['<', '(']) => rest,
        _ => name.trim_start_matches('<'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(names: &[(&str, &str)]) -> Vec<Frame> {
        let frame = |(function, module): &(&str, &str)| Frame {
            function: Some(function.to_string()),
            line: None,
            is_inlined: false,
            module: Some(module.to_string()),
            address: 0,
        };
        names.iter().map(frame).collect()
    }

    #[test]
    fn kind_and_caller_are_those_of_what_the_program_calls() {
        let libc = "libc.so.6";
        for (stack, kind, caller_is) in [
            (&[("__lll_lock_wait", libc), ("pthread_mutex_lock", libc), ("take", "pool")][..], "mutex", "take"),
            (
                &[("pthread_cond_wait", libc), ("os::PlatformEvent::park()", "libjvm.so"), ("f", "x")],
                "Java monitor",
                "f",
            ),
            (
                &[("futex_wait", "app"), ("std::sys::sync::mutex::futex::Mutex::lock", "app"), ("app::f", "app")],
                "mutex",
                "futex_wait",
            ),
            (&[("std::sys::futex_wait", "app"), ("std::thread::park", "app"), ("app::f", "app")], "park", "app::f"),
            (&[("syscall", libc), ("mine", "app")], "futex", "mine"),
            (
                &[("pthread_cond_timedwait", libc), ("take_gil", "python3"), ("main", "python3")],
                "Python's GIL",
                "take_gil",
            ),
        ] {
            let frames = frames(stack);
            assert_eq!(of(&frames, 137).name, kind, "{stack:?}");
            assert_eq!(caller(&frames).and_then(|frame| frame.function.as_deref()), Some(caller_is), "{stack:?}");
        }
        let woken = frames(&[("__lll_lock_wait", libc), ("pthread_cond_wait", libc)]);
        assert_eq!((of(&woken, 128).name, of(&woken, 393).name), ("mutex", "condition variable"));
        assert_eq!((of(&[], 128).name, caller(&[])), ("futex", None));
        assert_eq!(
            caller(&frames(&[("f", libc)])).map(ToString::to_string).as_deref(),
            Some("f in libc.so.6"),
            "nothing else"
        );
    }

    #[test]
    fn runtime_of_a_language_is_between_its_lock_and_the_program() {
        let (libc, jvm) = ("libc.so.6", "libjvm.so");
        let await_in = "void java.util.AbstractQueuedSynchronizer$ConditionObject.await()";
        for (stack, kind, caller_is) in [
            (
                &[("Parker::park", jvm), ("Interpreter", ""), ("void java.util.X.take()", ""), ("int A.f(int)", "")][..],
                "Java's park",
                "int A.f(int)",
            ),
            (&[("Unsafe_Park", jvm), (await_in, "")], "Java condition", "Unsafe_Park"),
            (&[("ObjectMonitor::EnterI", jvm), ("StubRoutines (1)", "")], "Java monitor", "ObjectMonitor::EnterI"),
            (&[("park", jvm), ("ObjectMonitor::wait", jvm), ("void A.f()", "")], "Java's Object.wait", "void A.f()"),
            (
                &[("sem_wait", libc), ("PyThread_acquire_lock", "python3"), ("py::f:a.py", "")],
                "Python lock",
                "py::f:a.py",
            ),
            (&[("pthread_mutex_lock", libc), ("f", "numpy"), ("py::f:a.py", "")], "mutex", "f"),
            (
                &[("pthread_cond_wait", libc), ("rb_native_cond_wait", "ruby"), ("rb_mutex_lock", "ruby")],
                "Ruby mutex",
                "rb_mutex_lock",
            ),
            (
                &[
                    ("pthread_cond_wait", libc),
                    ("sleep", "ruby"),
                    ("rb_vm_exec", "ruby"),
                    ("rb_mutex_synchronize", "ruby"),
                ],
                "condition variable",
                "sleep",
            ),
            (
                &[("pthread_mutex_lock", libc), ("void std::lock<std::mutex, int>(f)", ""), ("A::f<int>(B) const", "")],
                "mutex",
                "A::f<int>(B) const",
            ),
        ] {
            let frames = frames(stack);
            assert_eq!(of(&frames, 137).name, kind, "{stack:?}");
            assert_eq!(caller(&frames).and_then(|frame| frame.function.as_deref()), Some(caller_is), "{stack:?}");
        }
    }
}
