//! Threads that sleep in an operation, watched from outside.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::mpsc::{Receiver, channel};

use crate::common::PATIENCE;
use crate::common::asleep::{Call, futex_call, thread_id, until};

/// A thread in an operation that may block. It is never joined: one that hangs fails its test and hangs nobody.
pub struct Sleeping<R> {
    thread: Arc<AtomicI32>,
    has_ended: Arc<AtomicBool>,
    outcome: Receiver<R>,
}

impl<R: Send + 'static> Sleeping<R> {
    /// Has a thread run `operation`, and returns when it sleeps there, or is through.
    pub fn new(operation: impl FnOnce() -> R + Send + 'static) -> Self {
        let sleeping = Self::start(operation);
        until("the thread sleeps", || sleeping.is_asleep() || sleeping.has_ended.load(Ordering::Acquire));
        sleeping
    }

    /// As `new`, but does not wait for it.
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
        Self { thread, has_ended, outcome }
    }

    pub fn is_asleep(&self) -> bool {
        let thread = self.thread.load(Ordering::Acquire);
        thread != 0 && futex_call(thread).is_some_and(Call::is_of_the_engine)
    }

    /// What the operation answered.
    pub fn outcome(self) -> R {
        self.outcome.recv_timeout(PATIENCE).expect("the operation ends: its wake or its end was lost")
    }
}
