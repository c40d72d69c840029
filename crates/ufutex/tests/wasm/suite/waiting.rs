//! A guest thread in a wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::mpsc::{Receiver, channel};

use ufutex::wasm::{Trap, Waited};

use crate::common::PATIENCE;
use crate::common::asleep::{Call, futex_call, thread_id, until};
use crate::suite::{FOREVER, Machine, Width};

/// A thread that waits. It is never joined, so that a thread that hangs fails its test instead of blocking it.
pub struct Waiting {
    thread: Arc<AtomicI32>,
    has_ended: Arc<AtomicBool>,
    outcome: Receiver<Result<Waited, Trap>>,
}

impl Waiting {
    /// Runs `wait` in a new thread. Returns when the thread sleeps or has ended.
    pub fn new(wait: impl FnOnce() -> Result<Waited, Trap> + Send + 'static) -> Self {
        let (send, outcome) = channel();
        let thread = Arc::new(AtomicI32::new(0));
        let has_ended = Arc::new(AtomicBool::new(false));
        let (its_thread, its_end) = (thread.clone(), has_ended.clone());
        std::thread::spawn(move || {
            its_thread.store(thread_id(), Ordering::Release);
            _ = send.send(wait());
            its_end.store(true, Ordering::Release);
        });
        let waiting = Self { thread, has_ended, outcome };
        until("the thread waits", || waiting.is_asleep() || waiting.has_ended());
        waiting
    }

    /// A wait with expected value 0 and without a timeout.
    pub fn on<M: Machine, W: Width>(machine: &Arc<M>, address: u64) -> Self {
        let machine = machine.clone();
        Self::new(move || W::wait(&*machine, address, 0, FOREVER))
    }

    /// Whether the thread sleeps in a wait of the machine, and not for an internal lock of the machine.
    pub fn is_asleep(&self) -> bool {
        let thread = self.thread.load(Ordering::Acquire);
        // Locks of the standard library sleep with the expected value 2, the engine's buckets with 1.
        // A group's word counts wakes, so it may hold either.
        let is_wait = |call: Call| call.bits != u32::MAX || !matches!(call.expected as u32, 1 | 2);
        thread != 0 && futex_call(thread).is_some_and(is_wait)
    }

    /// Whether the wait has ended.
    pub fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    /// The result of the wait.
    pub fn outcome(self) -> Result<Waited, Trap> {
        self.outcome.recv_timeout(PATIENCE).expect("the wait ends: its notify was lost")
    }
}

/// Waits until `count` of `waiting` have been woken, removes them and returns their numbers. The others must sleep.
pub fn woken(waiting: &mut Vec<(usize, Waiting)>, count: usize) -> Vec<usize> {
    let mut woken = Vec::new();
    until("those that were notified run", || {
        waiting.retain(|(number, one)| match one.outcome.try_recv() {
            Ok(outcome) => {
                assert_eq!(outcome, Ok(Waited::Ok));
                woken.push(*number);
                false
            }
            Err(_) => true,
        });
        woken.len() >= count
    });
    woken.sort_unstable();
    woken
}
