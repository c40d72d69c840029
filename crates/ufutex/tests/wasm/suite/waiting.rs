//! A guest's thread in a wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::mpsc::{Receiver, channel};

use ufutex::wasm::{Trap, Waited};

use crate::common::PATIENCE;
use crate::common::asleep::{futex_call, thread_id, until};
use crate::suite::{FOREVER, Machine, Width};

/// A thread that waits. It is never joined: one that hangs fails its test and hangs nobody.
pub struct Waiting {
    thread: Arc<AtomicI32>,
    has_ended: Arc<AtomicBool>,
    outcome: Receiver<Result<Waited, Trap>>,
}

impl Waiting {
    /// Runs `wait`, and returns when its thread sleeps, or is through.
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

    /// A wait of that width for a 0 to change, without a timeout.
    pub fn on<M: Machine, W: Width>(machine: &Arc<M>, address: u64) -> Self {
        let machine = machine.clone();
        Self::new(move || W::wait(&*machine, address, 0, FOREVER))
    }

    /// Whether it sleeps until it is told, however its machine has its threads sleep: not for a lock of the machine's own.
    pub fn is_asleep(&self) -> bool {
        let thread = self.thread.load(Ordering::Acquire);
        // What the standard library's locks expect, and the engine's buckets: 2 and 1.
        thread != 0 && futex_call(thread).is_some_and(|call| !matches!(call.expected as u32, 1 | 2))
    }

    /// Whether it is through.
    pub fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    /// What the wait answered.
    pub fn outcome(self) -> Result<Waited, Trap> {
        self.outcome.recv_timeout(PATIENCE).expect("the wait ends: its notify was lost")
    }
}

/// Which of `waiting` have been woken; these are taken out. The others sleep.
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
