//! Who has a hardware thread, where several threads share one: a thread keeps it until it sleeps, gives it away, or has
//! had its slice while others wait.

use std::collections::VecDeque;

use super::{Event, Machine, Time};
use crate::topology::Topology;

/// A hardware thread.
pub struct Cpu {
    /// Those of the same core.
    siblings: Box<[usize]>,
    has: Option<usize>,
    ready: VecDeque<usize>,
    slice_ends: Time,
}

impl Cpu {
    /// Hardware thread `cpu`: those of a core are as far apart as there are cores.
    pub fn new(cpu: usize, topology: &Topology) -> Self {
        let cores = topology.cores();
        let siblings = (cpu % cores..topology.cpus()).step_by(cores).filter(|sibling| *sibling != cpu).collect();
        Self { siblings, has: None, ready: VecDeque::new(), slice_ends: 0 }
    }
}

impl Machine {
    /// `thread` can run from `time` on, as soon as its core is free.
    pub(super) fn make_ready(&mut self, thread: usize, time: Time) {
        let slice = self.costs.slice;
        let cpu = &mut self.cpus[self.threads[thread].cpu];
        if cpu.has.is_some() {
            cpu.ready.push_back(thread);
            let this = &mut self.threads[thread];
            this.clock = this.clock.max(time);
            return;
        }
        cpu.has = Some(thread);
        cpu.slice_ends = time + slice;
        self.at(time, Event::Resume(thread));
    }

    /// `thread` gives its core to the next that is ready.
    pub(super) fn leave_cpu(&mut self, thread: usize) {
        let now = self.threads[thread].clock + self.costs.switch;
        let slice = self.costs.slice;
        let cpu = &mut self.cpus[self.threads[thread].cpu];
        cpu.has = cpu.ready.pop_front();
        if let Some(next) = cpu.has {
            let begins = now.max(self.threads[next].clock);
            cpu.slice_ends = begins + slice;
            self.at(begins, Event::Resume(next));
        }
    }

    /// Whether the running thread has had its slice and others wait for its core.
    pub(super) fn is_preempted(&self, thread: usize) -> bool {
        let cpu = &self.cpus[self.threads[thread].cpu];
        !cpu.ready.is_empty() && self.threads[thread].clock >= cpu.slice_ends
    }

    /// Whether nobody waits for the core of `thread`.
    pub(super) fn is_alone(&self, thread: usize) -> bool {
        self.cpus[self.threads[thread].cpu].ready.is_empty()
    }

    /// How many other threads compute on the core of the running one.
    pub(super) fn busy_siblings(&self) -> usize {
        let is_busy =
            |sibling: &&usize| self.cpus[**sibling].has.is_some_and(|thread| !self.threads[thread].is_stalled);
        self.cpus[self.cpu()].siblings.iter().filter(is_busy).count()
    }

    /// The running thread lets others of its core go first; whether there were any.
    pub fn yield_cpu(&mut self, thread: usize) -> bool {
        let cpu = self.threads[thread].cpu;
        if self.cpus[cpu].ready.is_empty() {
            return false;
        }
        self.cpus[cpu].ready.push_back(thread);
        self.leave_cpu(thread);
        true
    }

    /// Into the kernel and out again.
    pub fn syscall(&mut self) {
        self.advance(self.costs.syscall);
    }
}
