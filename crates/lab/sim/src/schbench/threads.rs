//! schbench's threads with `-n 0 -s 0`, statement by statement where shared memory is concerned ([schbench-program],
//! schbench.c: `msg_and_wait`, `run_msg_thread`, `xlist_wake_all`, `fpost`, `fwait`).
//!
//! A worker sets its futex to `BLOCKED`, joins the head of its message thread's list, posts the message thread's futex,
//! and waits on its own. A message thread sets its futex to `BLOCKED`, takes the whole list, and posts the futex of
//! each worker on it, last worker first. Then it waits, unless its futex has been posted meanwhile. A post to a thread
//! that runs is a compare-and-swap without a call.

use super::scheduler::Tasks;
use super::thread_data::ThreadData;
use crate::engine::Domain;
use ufutex_coherence::atomic::Ordering;
use ufutex_coherence::current;

/// The values of a thread's futex: not posted, and posted.
const BLOCKED: u32 = 0;
const RUNNING: u32 = 1;
/// Nanoseconds of a clock reading without a call (assumed). schbench reads it four times a request and once a list.
const CLOCK_NS: f64 = 25.0;

/// All threads of a run, numbered as in schbench's array: a message thread, its workers, the next message thread.
pub struct Threads<'a> {
    pub domain: &'a dyn Domain,
    pub data: ThreadData,
    pub tasks: Tasks,
    /// Workers of each message thread.
    pub workers: usize,
    /// Nanoseconds of a futex call beyond the table and the scheduler.
    pub call_ns: f64,
}

impl Threads<'_> {
    /// Runs the thread of this number to its end.
    pub fn run(&self, thread: usize) {
        match thread % (self.workers + 1) {
            0 => self.message(thread),
            number => self.worker(thread, thread - number),
        }
    }

    fn message(&self, this: usize) {
        loop {
            self.data.futex(this).store(BLOCKED, Ordering::Relaxed);
            self.wake_all(this);
            if current::is_over() {
                break;
            }
            self.wait(this);
        }
        self.wake_all(this);
        (this + 1..=this + self.workers).for_each(|worker| self.post(worker));
    }

    fn wake_all(&self, this: usize) {
        let mut list = self.take(this);
        current::compute(CLOCK_NS);
        while list != 0 {
            let worker = list as usize - 1;
            list = self.data.next(worker).load(Ordering::Relaxed);
            self.data.next(worker).store(0, Ordering::Relaxed);
            self.data.wake_time(worker).store(0, Ordering::Relaxed);
            self.post(worker);
        }
    }

    fn worker(&self, this: usize, message: usize) {
        while !current::is_over() {
            self.data.futex(this).store(BLOCKED, Ordering::Relaxed);
            current::compute(CLOCK_NS);
            self.data.wake_time(this).store(1, Ordering::Relaxed);
            self.queue(message, this);
            self.post(message);
            if !current::is_over() {
                self.wait(this);
            }
            // The worker reads the clock for the wakeup latency, and before and after the request, which is empty.
            current::compute(CLOCK_NS);
            self.data.wake_time(this).load(Ordering::Relaxed);
            current::compute(2.0 * CLOCK_NS);
            current::done(1);
        }
        // The message thread may sleep. This last post wakes it.
        self.post(message);
    }

    /// Puts a worker at the head of the list.
    fn queue(&self, message: usize, worker: usize) {
        let (first, next) = (self.data.next(message), self.data.next(worker));
        loop {
            let old = first.load(Ordering::Relaxed);
            next.store(old, Ordering::Relaxed);
            if first.compare_exchange(old, worker as u32 + 1, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return;
            }
        }
    }

    /// Takes the whole list. Returns the number plus 1 of the worker that joined last, or 0.
    fn take(&self, message: usize) -> u32 {
        let first = self.data.next(message);
        loop {
            let old = first.load(Ordering::Relaxed);
            if first.compare_exchange(old, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return old;
            }
        }
    }

    fn post(&self, thread: usize) {
        let futex = self.data.futex(thread);
        if futex.compare_exchange(BLOCKED, RUNNING, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            current::compute(self.call_ns);
            if self.domain.wake(self.data.word(thread), 1) > 0 {
                self.tasks.wake(thread);
            }
        }
    }

    /// Waits until the futex is posted, and resets it.
    fn wait(&self, this: usize) {
        let futex = self.data.futex(this);
        while futex.compare_exchange(RUNNING, BLOCKED, Ordering::AcqRel, Ordering::Acquire).is_err() {
            current::compute(self.call_ns - self.data.read_ns());
            self.tasks.sleep(this);
            let _ = self.domain.wait(self.data.word(this), BLOCKED);
        }
    }
}
