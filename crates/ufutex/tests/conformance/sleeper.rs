//! A thread that waits on a futex, observed from outside.

use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};

use crate::common::PATIENCE;
use crate::common::asleep::{futex_call, thread_id, until};
use crate::common::patient::within_patience;
use crate::futex::{Errno, Futex, How};

/// A thread that waits once. It is never joined, so that a waiter that is not woken fails its test instead of blocking
/// it.
pub struct Sleeper {
    futex: Arc<dyn Futex>,
    word: &'static AtomicU32,
    thread: Arc<AtomicI32>,
    outcome: Receiver<Result<(), Errno>>,
}

impl Sleeper {
    /// Starts a wait with the word's current value as the expected value. Returns when the thread is queued and asleep.
    pub fn new(futex: &Arc<dyn Futex>, word: &'static AtomicU32, how: How) -> Self {
        let sleeper = Self::start(futex, word, how, || {});
        sleeper.until_asleep();
        sleeper
    }

    /// Starts a wait and returns at once. The thread calls `noted` if the wait ends by a wake.
    pub fn start(
        futex: &Arc<dyn Futex>,
        word: &'static AtomicU32,
        how: How,
        noted: impl FnOnce() + Send + 'static,
    ) -> Self {
        let (send, outcome) = channel();
        let thread = Arc::new(AtomicI32::new(0));
        let expected = word.load(Ordering::Relaxed);
        let (its_futex, its_thread) = (futex.clone(), thread.clone());
        std::thread::spawn(move || {
            its_thread.store(thread_id(), Ordering::Release);
            let result = its_futex.wait(word, expected, how);
            if result.is_ok() {
                noted();
            }
            let _ = send.send(result);
        });
        Self { futex: futex.clone(), word, thread, outcome }
    }

    /// The thread's TID.
    pub fn thread(&self) -> i32 {
        self.thread.load(Ordering::Acquire)
    }

    /// Waits until the thread is queued and asleep.
    pub fn until_asleep(&self) {
        until("the waiter sleeps", || self.is_asleep());
    }

    pub fn is_asleep(&self) -> bool {
        match self.thread() {
            0 => false,
            thread => futex_call(thread).is_some_and(|call| self.futex.sleeps_in(call, self.word)),
        }
    }

    /// How the wait ended.
    pub fn outcome(self) -> Result<(), Errno> {
        self.outcome.recv_timeout(PATIENCE).expect("the wait ends: its wake or its timeout was lost")
    }
}

/// The numbers of the woken waiters, in the order in which they recorded themselves.
#[derive(Clone, Default)]
pub struct Order(Arc<Mutex<Vec<usize>>>);

impl Order {
    pub fn note(&self, number: usize) -> impl FnOnce() + Send + 'static {
        let order = self.clone();
        move || order.0.lock().expect("not poisoned").push(number)
    }

    pub fn seen(&self) -> Vec<usize> {
        self.0.lock().expect("not poisoned").clone()
    }
}

/// Waits on a new thread, and fails the test if the wait does not end.
pub fn wait(futex: &Arc<dyn Futex>, word: &'static AtomicU32, expected: u32, how: How) -> Result<(), Errno> {
    let futex = futex.clone();
    within_patience("a wait", move || futex.wait(word, expected, how))
}
