//! The machine: threads on cores, the lines that move between them, and the time that this takes.
//!
//! A thread waits for one thing at a time, and each wait ends with an event that resumes it:
//!
//! | a thread is | until |
//! |---|---|
//! | running | it makes an access while another core's clock is behind: then it waits for its turn |
//! | waiting for a line | `line.rs` has granted it and the transfer is over |
//! | draining | its last store has its line |
//! | ready | the core that it shares is free (`schedule.rs`) |
//! | spinning | the line that it reads has been written to, and it is the first that spins on it (`spin.rs`) |
//! | asleep | it is woken, or its deadline comes (`sleep.rs`) |
//! | at the gate | all threads are (`current::rendezvous`) |
//!
//! The state is borrowed for one step at a time and never while a coroutine waits.

mod access;
mod costs;
mod hasher;
mod line;
mod schedule;
mod sleep;
mod spin;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use crate::arbiter::Arbiter;
use crate::simulation::Length;
use crate::statistics::Statistics;
use crate::topology::Topology;

pub use access::{Access, LINE, Next};
use costs::Costs;
pub use hasher::LineHasher;
use line::AtLine;
use schedule::Cpu;
use sleep::Sleepers;
pub use sleep::Slept;
use spin::Spinner;

/// Virtual time, in picoseconds.
pub type Time = u64;

/// Something that happens at a point in time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Event {
    /// A thread goes on.
    Resume(usize),
    /// A line goes to the next request that waits for it.
    Serve(usize),
    /// A line leaves its holder for the core to which it has been granted.
    Leave(usize),
    /// A thread's store has its line.
    Stored(usize),
    /// The deadline of a thread's sleep, by the sleep's number.
    Deadline(usize, u64),
    /// A turn of a thread's spinning loop has lasted long enough. With the number of the turn.
    Spun(usize, u64),
}

/// A virtual thread as the machine sees it.
struct Thread {
    clock: Time,
    /// The time from which on the core could see the thread's next accesses coming.
    sees_since: Time,
    /// The hardware thread that the thread runs on.
    cpu: usize,
    /// The number of stores that wait for their lines.
    stores: u32,
    /// The thread waits until no store waits.
    is_draining: bool,
    /// The thread waits for memory, and leaves its core to the siblings meanwhile.
    is_stalled: bool,
    has_ended: bool,
    /// The address at which the thread sleeps; `slept` says how its last sleep ended.
    sleeps_on: Option<usize>,
    slept: Slept,
    sleeps: u64,
    spinner: Spinner,
    operations: u64,
}

/// The state of a simulation.
pub struct Machine {
    pub topology: Topology,
    costs: Costs,
    events: BinaryHeap<Reverse<(Time, u64, Event)>>,
    number: u64,
    threads: Vec<Thread>,
    cpus: Vec<Cpu>,
    lines: HashMap<usize, AtLine, LineHasher>,
    sleepers: Sleepers,
    at_gate: Vec<usize>,
    pub running: usize,
    pub statistics: Statistics,
    arbiter: Arbiter,
    window: Window,
}

/// The measured part of a simulation.
struct Window {
    length: Length,
    /// The number of operations since the gate opened, or since the beginning.
    operations: u64,
    /// The time at which the gate opened.
    origin: Time,
    begin: Time,
    end: Option<Time>,
}

/// Converts a time to nanoseconds.
pub fn ns(time: Time) -> f64 {
    time as f64 / 1000.0
}

impl Machine {
    /// Makes a machine on which thread `i` runs on hardware thread `placement[i]`.
    pub fn new(topology: Topology, placement: &[u16], seed: u64, length: Length) -> Self {
        let thread = |cpu: &u16| Thread {
            clock: 0,
            sees_since: 0,
            cpu: usize::from(*cpu),
            stores: 0,
            is_draining: false,
            is_stalled: false,
            has_ended: false,
            sleeps_on: None,
            slept: Slept::Woken,
            sleeps: 0,
            spinner: Spinner::default(),
            operations: 0,
        };
        let mut machine = Self {
            costs: Costs::new(&topology),
            cpus: (0..topology.cpus()).map(|cpu| Cpu::new(cpu, &topology)).collect(),
            topology,
            events: BinaryHeap::new(),
            number: 0,
            threads: placement.iter().map(thread).collect(),
            lines: HashMap::default(),
            sleepers: Sleepers::default(),
            at_gate: Vec::new(),
            running: 0,
            statistics: Statistics::default(),
            arbiter: Arbiter::new(seed),
            window: Window { length, operations: 0, origin: 0, begin: 0, end: None },
        };
        if matches!(length, Length::Whole) {
            machine.statistics.begin();
        }
        for thread in 0..machine.threads.len() {
            machine.make_ready(thread, 0);
        }
        machine
    }

    /// The next thread to resume; `None` if no event is left, or none before `limit`.
    pub fn next_thread(&mut self, limit: Time) -> Option<usize> {
        while let Some(Reverse((time, _, event))) = self.events.pop() {
            if time > limit {
                return None;
            }
            self.look_at_window(time);
            match event {
                Event::Resume(thread) => {
                    self.running = thread;
                    self.resume(time);
                    return Some(thread);
                }
                Event::Serve(line) => self.serve(line, time),
                Event::Leave(line) => self.leave(line, time),
                Event::Stored(thread) => self.stored(thread, time),
                Event::Deadline(thread, sleep) => self.deadline(thread, sleep, time),
                Event::Spun(thread, turn) => self.spun(thread, turn, time),
            }
        }
        None
    }

    /// Resumes the running thread. If it had to wait, the core sees its next accesses only from `time` on.
    fn resume(&mut self, time: Time) {
        let thread = &mut self.threads[self.running];
        thread.is_stalled = false;
        if time > thread.clock {
            thread.clock = time;
            thread.sees_since = time;
        }
    }

    /// Notes that the running thread has passed a barrier, which later accesses do not overtake.
    fn fence(&mut self) {
        let thread = &mut self.threads[self.running];
        thread.sees_since = thread.clock;
    }

    /// How long the running thread's core has seen the thread's next access coming.
    fn in_sight(&self) -> Time {
        let thread = &self.threads[self.running];
        (thread.clock - thread.sees_since).min(self.costs.window)
    }

    /// Ends the running thread.
    pub fn end_thread(&mut self) {
        let thread = self.running;
        self.threads[thread].has_ended = true;
        self.leave_cpu(thread);
    }

    fn at(&mut self, time: Time, event: Event) {
        self.number += 1;
        self.events.push(Reverse((time, self.number, event)));
    }

    /// The clock of the running thread.
    pub fn clock(&self) -> Time {
        self.threads[self.running].clock
    }

    /// Computes for `time` on the running thread. This takes longer if siblings use the core too.
    pub fn advance(&mut self, time: Time) {
        let more = match self.busy_siblings() {
            0 => 0,
            busy => (time as f64 * self.topology.latency.sibling * busy as f64) as Time,
        };
        self.threads[self.running].clock += time + more;
    }

    /// A random number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.arbiter.below(bound)
    }

    /// The hardware thread that the running thread is on.
    pub fn cpu(&self) -> usize {
        self.threads[self.running].cpu
    }

    /// Notes that the running thread has done `operations`.
    pub fn done(&mut self, operations: u64) {
        let (running, clock) = (self.running, self.clock());
        self.look_at_window(clock);
        if self.statistics.is_measuring {
            self.threads[running].operations += operations;
        }
        self.window.operations += operations;
        if let Length::Operations { warm_up, measured } = self.window.length {
            if !self.statistics.is_measuring && self.window.end.is_none() && self.window.operations >= warm_up {
                self.begin_window(clock);
            } else if self.statistics.is_measuring && self.window.operations >= warm_up + measured {
                self.end_window(clock);
            }
        }
    }

    /// Whether the measured part is over.
    pub fn is_over(&self) -> bool {
        self.window.end.is_some()
    }

    fn look_at_window(&mut self, now: Time) {
        let Length::Time { warm_up_ns, measured_ns } = self.window.length else {
            return;
        };
        let begin = self.window.origin + warm_up_ns * 1000;
        if self.statistics.is_measuring && now >= begin + measured_ns * 1000 {
            self.end_window(begin + measured_ns * 1000);
        } else if !self.statistics.is_measuring && self.window.end.is_none() && now >= begin {
            self.begin_window(begin);
        }
    }

    fn begin_window(&mut self, now: Time) {
        self.statistics.begin();
        self.threads.iter_mut().for_each(|thread| thread.operations = 0);
        self.window.begin = now;
    }

    fn end_window(&mut self, now: Time) {
        self.statistics.is_measuring = false;
        self.window.end = Some(now);
    }

    /// Makes the running thread wait, off its core, for all other threads that have not ended.
    pub fn rendezvous(&mut self) {
        let running = self.running;
        self.at_gate.push(running);
        self.leave_cpu(running);
        if self.at_gate.len() < self.threads.iter().filter(|thread| !thread.has_ended).count() {
            return;
        }
        let waiting = std::mem::take(&mut self.at_gate);
        let last = waiting.iter().map(|thread| self.threads[*thread].clock).max().unwrap_or(0);
        if self.window.length != Length::Whole {
            self.statistics.is_measuring = false;
            self.window = Window { operations: 0, origin: last, begin: last, end: None, ..self.window };
        }
        for thread in waiting {
            // Cores that begin in step would stay in step, which real ones do not.
            let stagger = self.arbiter.below(self.costs.stagger);
            self.make_ready(thread, last + stagger);
        }
    }

    /// The report at the end.
    pub fn report(&self) -> crate::Report {
        let ended = self.threads.iter().map(|thread| thread.clock).max().unwrap_or(0);
        let end = self.window.end.unwrap_or(ended);
        crate::Report {
            operations: self.threads.iter().map(|thread| thread.operations).sum(),
            by_thread: self.threads.iter().map(|thread| thread.operations).collect(),
            window_ns: ns(end.saturating_sub(self.window.begin)),
            counts: self.statistics.counts,
            hot: self.statistics.hot(),
            ended_ns: ns(ended),
            stuck: self.threads.iter().filter(|thread| !thread.has_ended).count(),
        }
    }
}
