//! The data that message threads and workers share: futexes, lists, measurements.

use super::latencies::Latencies;
use super::work::CpuLocks;
use crate::Subject;
use lab_measure::machine::{self, OwnLine};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The values of all futexes. `BLOCKED`: the thread has nothing to do, and sleeps or is about to.
pub const BLOCKED: u32 = 0;
/// The thread was posted, and should run.
const RUNNING: u32 = 1;

/// The parameters of a run. All values have been checked.
#[derive(Clone, Debug)]
pub struct Plan {
    /// `-m`: number of message threads.
    pub message_threads: usize,
    /// `-t`: workers of each message thread.
    pub workers: usize,
    /// `-F`: bytes of the matrices of each worker.
    pub footprint_bytes: usize,
    /// `-n`: multiplications in a request.
    pub operations: usize,
    /// `-s`: sleep at the beginning of a request.
    pub nap: Duration,
    /// Without `-L`: a request computes with the lock of its CPU held.
    pub locking: bool,
}

/// All shared data of a run.
pub struct SharedState {
    /// The run's parameters.
    pub plan: Plan,
    /// One for each message thread.
    pub message_threads: Vec<MessageThread>,
    pub(super) cpu_locks: CpuLocks,
    stopping: OwnLine<AtomicBool>,
    epoch: Instant,
}

/// A message thread and its workers.
pub struct MessageThread {
    /// The futex on which the message thread sleeps.
    futex: OwnLine<AtomicU32>,
    /// Head of the list of workers that want a message: the number of the last to join, from 1 on. 0: empty.
    list: OwnLine<AtomicU32>,
    /// The workers, by number.
    pub workers: Vec<Worker>,
    /// TID of the message thread. 0 until it runs.
    pub tid: AtomicU32,
}

/// The part of a worker that other threads access.
#[derive(Default)]
pub struct Worker {
    /// The worker's futex and the time of its wake. They share a cache line: its transfer is the message.
    pub(super) slot: OwnLine<WakeSlot>,
    /// The worker that joined the list before this one, counted from 1. 0 means none.
    next: AtomicU32,
    /// The worker's latencies. Other threads read them now and then.
    pub(super) record: OwnLine<Mutex<Record>>,
    /// Number of requests that the worker has completed.
    pub requests_done: OwnLine<AtomicU64>,
    /// TID of the worker. 0 until it runs.
    pub tid: AtomicU32,
}

#[derive(Default)]
pub(super) struct WakeSlot {
    pub futex: AtomicU32,
    pub woken_ns: AtomicU64,
}

#[derive(Default)]
pub(super) struct Record {
    pub wakeups: Latencies,
    pub requests: Latencies,
}

impl SharedState {
    /// Makes the shared data for all threads of the plan.
    pub fn new(plan: Plan) -> SharedState {
        let message_thread = |_| MessageThread {
            futex: OwnLine::default(),
            list: OwnLine::default(),
            workers: (0..plan.workers).map(|_| Worker::default()).collect(),
            tid: AtomicU32::new(0),
        };
        SharedState {
            message_threads: (0..plan.message_threads).map(message_thread).collect(),
            cpu_locks: CpuLocks::new(machine::cpus()),
            stopping: OwnLine::default(),
            epoch: Instant::now(),
            plan,
        }
    }

    /// All workers.
    pub fn workers(&self) -> impl Iterator<Item = &Worker> {
        self.message_threads.iter().flat_map(|message_thread| &message_thread.workers)
    }

    /// Nanoseconds since the run began.
    pub(super) fn now(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }

    pub(super) fn stopped(&self) -> bool {
        self.stopping.0.load(Ordering::SeqCst) // [Lj]
    }

    /// Ends the run. A thread that is about to sleep sees the flag, or is woken by its message thread.
    pub fn stop(&self, subject: &dyn Subject) {
        self.stopping.0.store(true, Ordering::SeqCst); // [Lj]: before the futexes of the message threads are checked
        for message_thread in &self.message_threads {
            message_thread.post(subject);
        }
    }

    /// The latencies of all workers: of wakeups and of requests.
    pub fn latencies(&self) -> (Latencies, Latencies) {
        let (mut wakeups, mut requests) = (Latencies::default(), Latencies::default());
        for worker in self.workers() {
            let record = worker.record();
            wakeups.add(&record.wakeups);
            requests.add(&record.requests);
        }
        (wakeups, requests)
    }
}

impl MessageThread {
    /// Wakes the message thread.
    pub(super) fn post(&self, subject: &dyn Subject) {
        post(subject, &self.futex.0);
    }

    /// The message thread's futex. It is set to [`BLOCKED`] before the list is read, and slept on after that.
    pub(super) fn futex(&self) -> &AtomicU32 {
        &self.futex.0
    }

    /// Puts a worker on the list.
    pub(super) fn queue(&self, worker: usize) {
        let (next, number) = (&self.workers[worker].next, worker as u32 + 1);
        let mut first = self.list.0.load(Ordering::Relaxed);
        loop {
            next.store(first, Ordering::Relaxed);
            // [Li]: publishes `next`, and sees the store of BLOCKED before the last `take`.
            match self.list.0.compare_exchange_weak(first, number, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => first = now,
            }
        }
    }

    /// Takes the whole list, last worker first.
    pub(super) fn take(&self) -> impl Iterator<Item = &Worker> {
        let mut number = self.list.0.swap(0, Ordering::AcqRel); // [Li]
        std::iter::from_fn(move || {
            let worker = self.workers.get((number as usize).checked_sub(1)?)?;
            // Reset before the worker is woken, as in schbench: it may then join the next list.
            number = worker.next.swap(0, Ordering::Relaxed);
            Some(worker)
        })
    }
}

impl Worker {
    pub(super) fn record(&self) -> std::sync::MutexGuard<'_, Record> {
        self.record.0.lock().expect("no thread panics with the record")
    }
}

/// Wakes the thread that sleeps on the futex. If the thread is only about to sleep, it will not sleep.
pub(super) fn post(subject: &dyn Subject, futex: &AtomicU32) {
    // [Lj], also if it fails: the futex is checked after whatever the caller has stored.
    if futex.compare_exchange(BLOCKED, RUNNING, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
        subject.wake(futex);
    }
}

/// Whether the futex was posted. Resets it to `BLOCKED`.
pub(super) fn was_posted(futex: &AtomicU32) -> bool {
    // [Lj]: sees what precedes the post.
    futex.compare_exchange(RUNNING, BLOCKED, Ordering::SeqCst, Ordering::SeqCst).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        Plan { message_threads: 1, workers: 3, footprint_bytes: 0, operations: 0, nap: Duration::ZERO, locking: false }
    }

    #[test]
    fn the_list_is_taken_whole_and_last_come_first() {
        let shared = SharedState::new(plan());
        let message_thread = &shared.message_threads[0];
        let taken = || -> Vec<usize> {
            let number = |worker: &Worker| message_thread.workers.iter().position(|one| std::ptr::eq(one, worker));
            message_thread.take().filter_map(number).collect()
        };
        message_thread.queue(0);
        message_thread.queue(2);
        assert_eq!(taken(), [2, 0]);
        assert_eq!(taken(), [0; 0]);
        message_thread.queue(1);
        assert_eq!(taken(), [1]);
    }
}
