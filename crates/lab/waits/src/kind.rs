//! What kind of lock a thread waited for, by the functions in which it did.

use crate::account::FUTEX_WAIT_PRIVATE;
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
/// glibc's mutex.
const MUTEX: Kind = kind("mutex", Some(true));

/// Parts of functions' names, and the kind. The first that fits counts, so that what uses a condition variable of glibc comes
/// before the condition variable.
const KINDS: [(&[&str], Kind); 17] = [
    (&["take_gil"], kind("Python's GIL", Some(true))),
    (&["PyThread_acquire_lock", "PyMutex_Lock", "_PyMutex", "PySemaphore", "_PyParkingLot"], kind("Python lock", None)),
    (
        &["rb_native_mutex", "thread_sched_wait", "thread_sched_to_running", "gvl_acquire"],
        kind("Ruby's GVL", Some(true)),
    ),
    (
        &["caml_thread_leave_blocking", "caml_acquire_domain_lock", "st_masterlock_acquire"],
        kind("OCaml's master lock", Some(true)),
    ),
    (&["Unsafe_Park", "Parker::park"], of_thread("Java's park", None)),
    (&["ObjectMonitor", "PlatformMonitor", "PlatformMutex", "PlatformEvent"], of_thread("Java monitor", None)),
    (&["runtime.futex"], of_thread("Go's park", None)),
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
const BETWEEN: [&str; 14] = [
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
];
/// Libraries whose frames are not where a program locks.
const LIBRARIES: [&str; 6] =
    ["libc.so.6", "libpthread.so.0", "libstdc++.so.6", "libc++.so.1", "libgomp.so.1", "libjvm.so"];

/// The kind, by the frames of a wait and its operation.
pub fn of(frames: &[Frame], operation: u64) -> Kind {
    let names: Vec<&str> = frames.iter().take(12).filter_map(|frame| frame.function.as_deref()).collect();
    let fits = |parts: &[&str]| names.iter().any(|name| parts.iter().any(|part| name.contains(part)));
    let mut fitting = KINDS.iter().filter(|(parts, _)| fits(parts)).map(|(_, kind)| *kind);
    match fitting.next() {
        None => kind("futex", None),
        // A thread that was woken takes the mutex again.
        Some(CONDITION) if operation == FUTEX_WAIT_PRIVATE => MUTEX,
        Some(kind) => kind,
    }
}

/// The frame in which the program itself waits: the innermost one that is not in a library of locks.
pub fn caller(frames: &[Frame]) -> Option<&Frame> {
    let is_between = |frame: &&Frame| {
        let in_library = frame.module.as_deref().is_some_and(|module| LIBRARIES.contains(&module));
        let between = |name: &String| BETWEEN.iter().any(|part| name.trim_start_matches('<').starts_with(part));
        in_library || frame.function.as_ref().is_some_and(between)
    };
    frames.iter().find(|frame| !is_between(frame)).or(frames.first())
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
}
