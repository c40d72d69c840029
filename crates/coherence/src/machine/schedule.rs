//! Threads that share a hardware thread: a thread keeps it until it sleeps, gives it away, or has used its slice while
//! other threads wait.

use std::collections::VecDeque;

use super::{Event, Machine, Time};
use crate::topology::Topology;

/// A hardware thread.
pub struct Cpu {
    /// The other hardware threads of the core.
    siblings: Box<[usize]>,
    has: Option<usize>,
    ready: VecDeque<usize>,
    slice_ends: Time,
}

impl Cpu {
    /// Makes hardware thread `cpu`. The distance of two siblings' numbers is a multiple of the number of cores.
    pub fn new(cpu: usize, topology: &Topology) -> Self {
        let cores = topology.cores();
        let siblings = (cpu % cores..topology.cpus()).step_by(cores).filter(|sibling| *sibling != cpu).collect();
        Self { siblings, has: None, ready: VecDeque::new(), slice_ends: 0 }
    }
}

impl Machine {
    /// Makes `thread` run from `time` on, as soon as its core is free.
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

    /// Gives the core of `thread` to the next thread that is ready.
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

    /// Whether the running thread has used its slice while others wait for its core.
    pub(super) fn is_preempted(&self, thread: usize) -> bool {
        let cpu = &self.cpus[self.threads[thread].cpu];
        !cpu.ready.is_empty() && self.threads[thread].clock >= cpu.slice_ends
    }

    /// Whether no other thread waits for the core of `thread`.
    pub(super) fn is_alone(&self, thread: usize) -> bool {
        self.cpus[self.threads[thread].cpu].ready.is_empty()
    }

    /// The number of siblings on which a thread computes, on the core of the running thread.
    pub(super) fn busy_siblings(&self) -> usize {
        let is_busy =
            |sibling: &&usize| self.cpus[**sibling].has.is_some_and(|thread| !self.threads[thread].is_stalled);
        self.cpus[self.cpu()].siblings.iter().filter(is_busy).count()
    }

    /// Lets other threads of the core go first. Returns whether there were any.
    pub fn yield_cpu(&mut self, thread: usize) -> bool {
        let cpu = self.threads[thread].cpu;
        if self.cpus[cpu].ready.is_empty() {
            return false;
        }
        self.cpus[cpu].ready.push_back(thread);
        self.leave_cpu(thread);
        true
    }

    /// Advances the clock for a system call.
    pub fn syscall(&mut self) {
        self.advance(self.costs.syscall);
    }
}
