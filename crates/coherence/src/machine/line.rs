//! The queue at a line: one transfer at a time, and the requests that wait for the next.
//!
//! A transfer has three legs: the request to the directory, the directory's message to the line's holder, and the
//! line's way to the requester. Until the third leg begins, the holder keeps the line and may use it. For a request in
//! the queue, the first leg is the message that the transfer before is over: a directory that blocks during a transfer
//! waits for it.

use std::collections::VecDeque;
use std::panic::Location;

use super::spin::Spinners;
use super::{Access, Event, Machine, Time};
use crate::directory::{Line, Supply};
use crate::topology::{Distance, Topology};

/// The legs of a transfer, which take equal times.
const LEGS: Time = 3;

/// A line, and the requests that wait for it.
#[derive(Default)]
pub struct AtLine {
    holders: Line,
    /// The request to which the line has been granted, until its last leg begins.
    coming: Option<Coming>,
    /// The time until which the line is in transfer, or kept by the core that has just got it.
    free_at: Time,
    /// The time at which the line was last written to.
    written_at: Time,
    waiting: VecDeque<Request>,
    pub spinners: Spinners,
    /// An event is scheduled that will serve the next request.
    is_served: bool,
}

/// A grant of a line that its holder still has.
struct Coming {
    request: Request,
    arrives: Time,
    /// Reads that get a copy with this transfer.
    readers: VecDeque<Request>,
}

/// A request for a line.
#[derive(Clone, Copy)]
pub struct Request {
    pub thread: usize,
    pub access: Access,
    pub address: usize,
    pub site: &'static Location<'static>,
    /// The time of the request.
    pub since: Time,
    /// How long the core had seen the access coming by then, and could have asked for the line.
    pub in_sight: Time,
}

impl AtLine {
    fn supply(&self, access: Access, cpu: u16, topology: &Topology) -> Supply {
        if access.writes() { self.holders.supply_write(cpu, topology) } else { self.holders.supply_read(cpu, topology) }
    }
}

impl Machine {
    /// Whether `cpu` holds the line in the state that `access` needs.
    pub fn has_line(&mut self, line: usize, cpu: u16, access: Access) -> bool {
        let now = self.clock();
        let Self { lines, topology, .. } = self;
        let at = lines.entry(line).or_default();
        if at.supply(access, cpu, topology) != Supply::Hit {
            return false;
        }
        if access.writes() {
            at.holders.write(cpu);
            at.written_at = now;
        }
        true
    }

    /// Whether a request of this thread waits for the line already. A further store goes along with it.
    pub fn waits_for(&self, line: usize, thread: usize) -> bool {
        self.lines.get(&line).is_some_and(|at| {
            let coming = at.coming.iter().map(|coming| &coming.request);
            coming.chain(&at.waiting).any(|request| request.thread == thread)
        })
    }

    /// Asks for a line. When the line has arrived, the thread is resumed, or its store done.
    pub fn ask(&mut self, line: usize, request: Request) {
        let now = request.since;
        let at = self.lines.entry(line).or_default();
        if at.free_at <= now && at.waiting.is_empty() && at.coming.is_none() {
            // The core has seen the access coming for a while, and asked for the line then, or as soon as it was free.
            let asked = now.saturating_sub(request.in_sight).max(at.free_at);
            self.grant(line, request, now, asked, VecDeque::new());
            return;
        }
        at.waiting.push_back(request);
        self.serve_later(line, now);
    }

    fn serve_later(&mut self, line: usize, now: Time) {
        let at = self.lines.entry(line).or_default();
        if at.waiting.is_empty() || at.is_served || at.coming.is_some() {
            return;
        }
        at.is_served = true;
        let next = at.free_at.max(now);
        self.at(next, Event::Serve(line));
    }

    /// The line is free: grants it to the next request.
    pub(super) fn serve(&mut self, line: usize, now: Time) {
        let Self { lines, arbiter, threads, topology, .. } = self;
        let Some(at) = lines.get_mut(&line) else {
            return;
        };
        at.is_served = false;
        if at.waiting.is_empty() || at.coming.is_some() {
            return;
        }
        let far = |request: &Request| {
            at.holders.owner().map(|owner| topology.distance(threads[request.thread].cpu as u16, owner))
        };
        let picked = arbiter.pick(at.waiting.iter().map(far));
        let request = at.waiting.remove(picked).expect("it was picked among these");
        // All requests that only read get a copy with this transfer.
        let mut readers = VecDeque::new();
        if !request.access.writes() {
            (readers, at.waiting) = std::mem::take(&mut at.waiting).into_iter().partition(|w| !w.access.writes());
        }
        self.grant(line, request, now, now, readers);
    }

    /// Grants the line to `request`, which was made at the time `asked`.
    fn grant(&mut self, line: usize, request: Request, now: Time, asked: Time, readers: VecDeque<Request>) {
        let cpu = self.threads[request.thread].cpu as u16;
        let kept = self.cost(request.access) + self.costs.hold;
        let at = self.lines.entry(line).or_default();
        let supply = at.supply(request.access, cpu, &self.topology);
        let last_leg = self.costs.supply(supply) / LEGS;
        // Only the directory in the other socket's memory knows which cores there have copies.
        let is_far = matches!(supply, Supply::Core { distance: Distance::Far, .. });
        let looks_up = is_far && request.access.writes() && matches!(at.holders, Line::Shared(_));
        let transfer = self.costs.supply(supply) + if looks_up { self.costs.supply(Supply::Memory) } else { 0 };
        let arrives = now.max(asked + transfer).max(at.written_at + last_leg);
        let leaves = now.max(arrives - last_leg);
        // A copy is made from another copy, and delays no other request.
        let is_copied = matches!(at.holders, Line::Shared(_)) && !request.access.writes();
        let coming = Coming { request, arrives, readers };
        if is_copied {
            self.hand_over(line, coming, now);
            return;
        }
        at.free_at = arrives + kept;
        if leaves > now {
            at.coming = Some(coming);
            self.at(leaves, Event::Leave(line));
        } else {
            self.hand_over(line, coming, now);
        }
    }

    /// Begins the last leg.
    pub(super) fn leave(&mut self, line: usize, now: Time) {
        let coming = self.lines.get_mut(&line).and_then(|at| at.coming.take());
        if let Some(coming) = coming {
            self.hand_over(line, coming, now);
        }
    }

    fn hand_over(&mut self, line: usize, coming: Coming, now: Time) {
        self.has_it(line, &coming.request, coming.arrives);
        for reader in &coming.readers {
            let cpu = self.threads[reader.thread].cpu as u16;
            let at = self.lines.entry(line).or_default();
            let last_leg = self.costs.supply(at.supply(reader.access, cpu, &self.topology)) / LEGS;
            self.has_it(line, reader, coming.arrives.max(now + last_leg));
        }
        self.serve_later(line, now);
    }

    /// Makes the core of `request` a holder of the line, which arrives at `arrives`.
    fn has_it(&mut self, line: usize, request: &Request, arrives: Time) {
        let cpu = self.threads[request.thread].cpu as u16;
        let at = self.lines.entry(line).or_default();
        let supply = at.supply(request.access, cpu, &self.topology);
        if request.access.writes() {
            at.holders.write(cpu);
            at.written_at = arrives;
        } else {
            at.holders.read(cpu);
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

    /// Notes new memory. The core that has allocated it holds its lines, as if it had just cleared them.
    pub fn renew_lines(&mut self, first: usize, last: usize) {
        let cpu = self.cpu() as u16;
        for line in first..=last {
            let at = self.lines.entry(line).or_default();
            (at.holders, at.free_at, at.written_at) = (Line::Modified(cpu), 0, 0);
        }
    }
}
