//! Where message threads and workers meet: their futexes, their lists, what they have measured.

use super::latencies::Latencies;
use super::work::CpuLocks;
use crate::Subject;
use lab_measure::machine::{self, OwnLine};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The values of all futexes: who sleeps there has nothing to do …
pub const BLOCKED: u32 = 0;
/// … or has been told.
const RUNNING: u32 = 1;

/// What one run is to do; every value has been checked.
#[derive(Clone, Debug)]
pub struct Plan {
    /// `-m`.
    pub message_threads: usize,
    /// `-t`: of each message thread.
    pub workers: usize,
    /// `-F`, of each worker.
    pub footprint_bytes: usize,
    /// `-n`: how often a request multiplies.
    pub operations: usize,
    /// `-s`: what a request begins with.
    pub nap: Duration,
    /// `-p`: bytes that both sides write, in place of requests.
    pub pipe_bytes: usize,
    /// `-R`, of all message threads together; 0 where workers begin.
    pub rate: u32,
    /// `-C`: naps are not part of a request.
    pub calibrate: bool,
    /// Without `-L`: a request computes under the lock of its CPU.
    pub locking: bool,
}

/// All of one run.
pub struct Hall {
    /// As asked for.
    pub plan: Plan,
    /// One for each message thread.
    pub desks: Vec<Desk>,
    /// Requests a second that each message thread hands out just now.
    pub rate_each: AtomicU32,
    pub(super) cpu_locks: CpuLocks,
    stopping: OwnLine<AtomicBool>,
    epoch: Instant,
}

/// One message thread, and who asks it.
pub struct Desk {
    /// What the message thread sleeps on.
    futex: OwnLine<AtomicU32>,
    /// The worker that came last on the list, counted from 1; 0 where nobody is on it.
    list: OwnLine<AtomicU32>,
    /// In no order.
    pub workers: Vec<Worker>,
    /// The thread, once it runs.
    pub tid: AtomicU32,
}

/// One worker, as others see it.
#[derive(Default)]
pub struct Worker {
    /// What it sleeps on, and when it was woken, side by side: that line is the message.
    pub(super) call: OwnLine<Call>,
    /// Who came before it on the list.
    next: AtomicU32,
    /// With `-R`: requests handed to it, and not yet taken.
    pub(super) requests: AtomicU32,
    /// `-p`: what is handed to and fro.
    pub(super) page: Vec<AtomicU64>,
    /// Its own; others read it now and then.
    pub(super) record: OwnLine<Mutex<Record>>,
    /// Requests that it has done.
    pub requests_done: OwnLine<AtomicU64>,
    /// For how long it has run, up to the last request, in nanoseconds.
    pub runtime_ns: AtomicU64,
    /// The thread, once it runs; 0 of a task.
    pub tid: AtomicU32,
}

#[derive(Default)]
pub(super) struct Call {
    pub futex: AtomicU32,
    pub woken_ns: AtomicU64,
}

#[derive(Default)]
pub(super) struct Record {
    pub wakeups: Latencies,
    pub requests: Latencies,
}

impl Hall {
    /// Empty, with a place for everybody.
    pub fn new(plan: Plan) -> Hall {
        let words = plan.pipe_bytes.div_ceil(size_of::<u64>());
        let worker = |_| Worker { page: (0..words).map(|_| AtomicU64::new(0)).collect(), ..Worker::default() };
        let desk = |_| Desk {
            futex: OwnLine::default(),
            list: OwnLine::default(),
            workers: (0..plan.workers).map(worker).collect(),
            tid: AtomicU32::new(0),
        };
        Hall {
            desks: (0..plan.message_threads).map(desk).collect(),
            rate_each: AtomicU32::new(plan.rate / plan.message_threads as u32),
            cpu_locks: CpuLocks::new(machine::cpus()),
            stopping: OwnLine::default(),
            epoch: Instant::now(),
            plan,
        }
    }

    /// All workers.
    pub fn workers(&self) -> impl Iterator<Item = &Worker> {
        self.desks.iter().flat_map(|desk| &desk.workers)
    }

    /// Since the run began, in nanoseconds.
    pub(super) fn now(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }

    /// Whether message threads hand out requests, and workers do not begin by themselves.
    pub(super) fn is_by_rate(&self) -> bool {
        self.plan.rate > 0
    }

    pub(super) fn stopped(&self) -> bool {
        self.stopping.0.load(Ordering::SeqCst)
    }

    /// Has everybody end. Whoever is about to sleep sees it, or is woken by its message thread.
    pub fn stop(&self, subject: &dyn Subject) {
        self.stopping.0.store(true, Ordering::SeqCst);
        for desk in &self.desks {
            desk.post(subject);
        }
    }

    /// What all workers have measured: wakeups, and requests.
    pub fn latencies(&self) -> (Latencies, Latencies) {
        let (mut wakeups, mut requests) = (Latencies::default(), Latencies::default());
        for worker in self.workers() {
            let record = worker.record();
            wakeups.add(&record.wakeups);
            requests.add(&record.requests);
        }
        (wakeups, requests)
    }

    /// Forgets what was measured so far; requests that were done stay counted, as in schbench.
    pub fn clear(&self) {
        for worker in self.workers() {
            let mut record = worker.record();
            record.wakeups.clear();
            record.requests.clear();
        }
    }
}

impl Desk {
    /// Wakes the message thread.
    pub(super) fn post(&self, subject: &dyn Subject) {
        post(subject, &self.futex.0);
    }

    /// The message thread's futex. It is to be [`BLOCKED`] before the list is looked at, and slept on after.
    pub(super) fn futex(&self) -> &AtomicU32 {
        &self.futex.0
    }

    /// Puts a worker on the list.
    pub(super) fn queue(&self, worker: usize) {
        let (next, number) = (&self.workers[worker].next, worker as u32 + 1);
        let mut first = self.list.0.load(Ordering::Relaxed);
        loop {
            next.store(first, Ordering::Relaxed);
            match self.list.0.compare_exchange_weak(first, number, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => first = now,
            }
        }
    }

    /// Takes the whole list: who came last comes first.
    pub(super) fn take(&self) -> impl Iterator<Item = &Worker> {
        let mut number = self.list.0.swap(0, Ordering::AcqRel);
        std::iter::from_fn(move || {
            let worker = self.workers.get((number as usize).checked_sub(1)?)?;
            // Read, and written as schbench does, before the worker is woken, and puts itself on the next list.
            number = worker.next.swap(0, Ordering::Relaxed);
            Some(worker)
        })
    }
}

impl Worker {
    pub(super) fn record(&self) -> std::sync::MutexGuard<'_, Record> {
        self.record.0.lock().expect("nobody panics with the record")
    }

    pub(super) fn write_page(&self, byte: u8) {
        let word = u64::from_ne_bytes([byte; 8]);
        self.page.iter().for_each(|cell| cell.store(word, Ordering::Relaxed));
    }
}

/// Tells whoever sleeps there, or is about to.
pub(super) fn post(subject: &dyn Subject, futex: &AtomicU32) {
    if futex.compare_exchange(BLOCKED, RUNNING, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
        subject.wake(futex);
    }
}

/// Whether it has been told, which it forgets.
pub(super) fn was_posted(futex: &AtomicU32) -> bool {
    futex.compare_exchange(RUNNING, BLOCKED, Ordering::SeqCst, Ordering::SeqCst).is_ok()
}

/// Told already: it shall not sleep.
pub(super) fn post_self(futex: &AtomicU32) {
    futex.store(RUNNING, Ordering::SeqCst);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        Plan {
            message_threads: 1,
            workers: 3,
            footprint_bytes: 0,
            operations: 0,
            nap: Duration::ZERO,
            pipe_bytes: 20,
            rate: 0,
            calibrate: false,
            locking: false,
        }
    }

    #[test]
    fn the_list_is_taken_whole_and_last_come_first() {
        let hall = Hall::new(plan());
        let desk = &hall.desks[0];
        let taken = || -> Vec<usize> {
            let number = |worker: &Worker| desk.workers.iter().position(|one| std::ptr::eq(one, worker));
            desk.take().filter_map(number).collect()
        };
        desk.queue(0);
        desk.queue(2);
        assert_eq!(taken(), [2, 0]);
        assert_eq!(taken(), [0; 0]);
        desk.queue(1);
        assert_eq!(taken(), [1]);
    }

    #[test]
    fn a_page_holds_at_least_the_bytes_asked_for() {
        let hall = Hall::new(plan());
        let worker = &hall.desks[0].workers[0];
        worker.write_page(2);
        let cells: Vec<_> = worker.page.iter().map(|cell| cell.load(Ordering::Relaxed)).collect();
        assert_eq!(cells, [0x0202_0202_0202_0202; 3]);
    }
}
