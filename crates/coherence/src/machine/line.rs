//! The queue at a line: one transfer at a time, and who waits for the next.

use std::collections::VecDeque;
use std::panic::Location;

use super::spin::Spinners;
use super::{Access, Event, Machine, Time};
use crate::directory::{Line, Supply};

/// A line, and who waits for it.
#[derive(Default)]
pub struct AtLine {
    holders: Line,
    /// Until when it is on its way, or kept by who has just got it.
    free_at: Time,
    waiting: VecDeque<Request>,
    pub spinners: Spinners,
    /// An event will serve the next.
    is_served: bool,
}

/// Somebody wants a line.
#[derive(Clone, Copy)]
pub struct Request {
    pub thread: usize,
    pub access: Access,
    pub address: usize,
    pub site: &'static Location<'static>,
    /// When it was made.
    pub since: Time,
}

impl Machine {
    /// Whether `cpu` has the line as `access` needs it.
    pub fn has_line(&mut self, line: usize, cpu: u16, access: Access) -> bool {
        let Self { lines, topology, .. } = self;
        let at = lines.entry(line).or_default();
        let supply = if access.writes() {
            at.holders.supply_write(cpu, topology)
        } else {
            at.holders.supply_read(cpu, topology)
        };
        if supply == Supply::Hit && access.writes() {
            at.holders.write(cpu);
        }
        supply == Supply::Hit
    }

    /// Whether a store of this thread waits for the line already, which then takes this one along.
    pub fn waits_for(&self, line: usize, thread: usize) -> bool {
        self.lines.get(&line).is_some_and(|at| at.waiting.iter().any(|waiting| waiting.thread == thread))
    }

    /// Asks for a line; the thread is resumed, or its store done, when it has it.
    pub fn ask(&mut self, line: usize, request: Request) {
        let now = request.since;
        let at = self.lines.entry(line).or_default();
        if at.free_at <= now && at.waiting.is_empty() {
            self.grant(line, request, now);
            return;
        }
        at.waiting.push_back(request);
        if !at.is_served {
            at.is_served = true;
            let next = at.free_at.max(now);
            self.at(next, Event::Serve(line));
        }
    }

    /// The line is free: it goes to the next.
    pub(super) fn serve(&mut self, line: usize, now: Time) {
        let Self { lines, arbiter, .. } = self;
        let Some(at) = lines.get_mut(&line) else {
            return;
        };
        at.is_served = false;
        if at.waiting.is_empty() {
            return;
        }
        let picked = arbiter.pick(at.waiting.len());
        let request = at.waiting.remove(picked).expect("it was picked among these");
        // Whoever wants to read it gets a copy on this occasion.
        let mut readers = VecDeque::new();
        if !request.access.writes() {
            (readers, at.waiting) = std::mem::take(&mut at.waiting).into_iter().partition(|w| !w.access.writes());
        }
        self.grant(line, request, now);
        for reader in readers {
            self.grant(line, reader, now);
        }
        let at = self.lines.entry(line).or_default();
        if !at.waiting.is_empty() && !at.is_served {
            at.is_served = true;
            let next = at.free_at.max(now);
            self.at(next, Event::Serve(line));
        }
    }

    fn grant(&mut self, line: usize, request: Request, now: Time) {
        let cpu = self.threads[request.thread].cpu as u16;
        let kept = self.cost(request.access) + self.costs.hold;
        let at = self.lines.entry(line).or_default();
        let supply = if request.access.writes() {
            at.holders.supply_write(cpu, &self.topology)
        } else {
            at.holders.supply_read(cpu, &self.topology)
        };
        let had_copies = matches!(at.holders, Line::Shared(_));
        if request.access.writes() {
            at.holders.write(cpu)
        } else {
            at.holders.read(cpu)
        }
        let arrives = now + self.costs.supply(supply);
        // Copies are made of copies, and hold up nobody.
        let is_copied = had_copies && !request.access.writes();
        if !is_copied {
            at.free_at = arrives + kept;
        }
        self.statistics.transfer(supply, request.access.loads(), request.address, request.site);
        self.statistics.waited(request.address, arrives - request.since);
        if request.access.writes() {
            self.let_first_look(line, arrives);
        }
        if request.access.is_buffered() {
            self.at(arrives, Event::Stored(request.thread));
        } else {
            self.at(arrives, Event::Resume(request.thread));
        }
    }

    /// New memory: who has asked for it has it, as if it had just cleared it.
    pub fn renew_lines(&mut self, first: usize, last: usize) {
        let cpu = self.cpu() as u16;
        for line in first..=last {
            let holders = Line::Modified(cpu);
            self.lines.insert(line, AtLine { holders, ..AtLine::default() });
        }
    }
}
