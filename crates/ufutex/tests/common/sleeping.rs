//! A thread in an operation that may block, watched from outside.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::mpsc::{Receiver, channel};

use super::asleep::{Call, futex_call, sleeps_in, thread_id, until};
use super::{PATIENCE, libc};

/// A thread that runs one operation. It is never joined, so that a thread that hangs fails its test instead of blocking
/// it.
pub struct Sleeping<R> {
    thread: Arc<AtomicI32>,
    has_ended: Arc<AtomicBool>,
    outcome: Receiver<R>,
}

impl<R: Send + 'static> Sleeping<R> {
    /// Runs an operation of the engine in a new thread. Returns when the thread sleeps in it or has ended.
    pub fn new(operation: impl FnOnce() -> R + Send + 'static) -> Self {
        let sleeping = Self::start(operation);
        until("the thread sleeps", || sleeping.is_asleep() || sleeping.has_ended());
        sleeping
    }

    /// Runs `operation` in a new thread and returns at once.
    pub fn start(operation: impl FnOnce() -> R + Send + 'static) -> Self {
        let (send, outcome) = channel();
        let thread = Arc::new(AtomicI32::new(0));
        let has_ended = Arc::new(AtomicBool::new(false));
        let (its_thread, its_end) = (thread.clone(), has_ended.clone());
        std::thread::spawn(move || {
            its_thread.store(thread_id(), Ordering::Release);
            _ = send.send(operation());
            its_end.store(true, Ordering::Release);
        });
        until("the thread runs", || thread.load(Ordering::Acquire) != 0);
        Self { thread, has_ended, outcome }
    }

    pub fn tid(&self) -> i32 {
        self.thread.load(Ordering::Acquire)
    }

    pub fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    /// Whether the thread sleeps in a wait of the engine.
    pub fn is_asleep(&self) -> bool {
        futex_call(self.tid()).is_some_and(Call::is_of_the_engine)
    }

    /// Waits until the thread sleeps in a system call for which `is_right` returns true.
    pub fn until_asleep(&self, is_right: impl Fn(libc::c_long, [u64; 6]) -> bool) {
        until("the thread sleeps", || sleeps_in(self.tid()).is_some_and(|(number, args)| is_right(number, args)));
    }

    /// The result of the operation.
    pub fn outcome(self) -> R {
        self.outcome.recv_timeout(PATIENCE).expect("the operation ends: its wake or its end was lost")
    }
}
