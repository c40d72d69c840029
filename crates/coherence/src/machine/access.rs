//! One access: what it needs of its line, what it costs, and what it waits for.

use std::panic::Location;

use super::line::Request;
use super::{Event, Machine, Time};

/// A cache line, in bytes.
pub const LINE: usize = 64;

/// A kind of access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// A load.
    Load,
    /// A store, which waits for its line in the store buffer.
    Store,
    /// A load and then a store by the same core, which must have the line for both.
    Update,
    /// A locked instruction, which waits for all stores before it.
    Locked,
}

impl Access {
    /// Whether the core must be the line's only holder.
    pub fn writes(self) -> bool {
        self != Self::Load
    }

    /// Whether the access reads.
    pub fn loads(self) -> bool {
        self != Self::Store
    }

    /// Whether the thread goes on before the access is done.
    pub fn is_buffered(self) -> bool {
        self == Self::Store
    }
}

/// What a thread has to do next.
#[must_use]
pub enum Next {
    /// Go on.
    Go,
    /// Give up its turn. It is resumed when it can go on.
    Wait,
}

impl Machine {
    /// The time that an access takes if the core has the line.
    pub(super) fn cost(&self, access: Access) -> Time {
        match access {
            Access::Load => self.costs.hit,
            Access::Store => self.costs.store,
            Access::Update => self.costs.hit + self.costs.store,
            Access::Locked => self.costs.locked,
        }
    }

    /// Called before an access: waits until no event is due earlier and the thread may keep its core.
    pub fn turn(&mut self) -> Next {
        let thread = self.running;
        let clock = self.threads[thread].clock;
        if self.is_preempted(thread) {
            self.yield_cpu(thread);
            return Next::Wait;
        }
        // An event at the same time happens first: a line that is due to leave does not stay for one more access.
        if self.events.peek().is_some_and(|event| event.0.0 <= clock) {
            self.at(clock, Event::Resume(thread));
            return Next::Wait;
        }
        self.look_at_window(clock);
        Next::Go
    }

    /// Called before a locked instruction or a barrier: waits until all stores have their lines.
    pub fn drain(&mut self) -> Next {
        let thread = &mut self.threads[self.running];
        if thread.stores == 0 {
            return Next::Go;
        }
        thread.is_draining = true;
        thread.is_stalled = true;
        Next::Wait
    }

    /// Makes the access. When the thread goes on, the core has the line and it is the thread's turn.
    pub fn access(&mut self, access: Access, address: usize, site: &'static Location<'static>) -> Next {
        self.count(access);
        let (thread, line) = (self.running, address / LINE);
        let cpu = self.cpu() as u16;
        if access == Access::Load {
            self.note_look(line);
        }
        if self.has_line(line, cpu, access) {
            return Next::Go;
        }
        if access.is_buffered() {
            if self.waits_for(line, thread) {
                return Next::Go;
            }
            self.threads[thread].stores += 1;
        } else if access == Access::Load && self.threads[thread].stores > 0 && self.waits_for(line, thread) {
            // The load is answered from the store buffer.
            return Next::Go;
        }
        let (since, in_sight) = (self.clock(), self.in_sight());
        self.ask(line, Request { thread, access, address, site, since, in_sight });
        if access.is_buffered() {
            return Next::Go;
        }
        self.threads[thread].is_stalled = true;
        Next::Wait
    }

    /// Advances the clock after an access.
    pub fn pay(&mut self, access: Access) {
        let cost = self.cost(access);
        self.advance(cost);
        if access == Access::Locked {
            self.fence();
        }
    }

    /// Advances the clock for a full barrier with an empty store buffer.
    pub fn pay_barrier(&mut self) {
        if self.statistics.is_measuring {
            self.statistics.counts.barriers += 1;
        }
        self.advance(self.costs.barrier);
        self.fence();
    }

    /// Advances the clock for a barrier on all cores.
    pub fn membarrier(&mut self) {
        self.advance(self.costs.membarrier);
    }

    pub(super) fn stored(&mut self, thread: usize, now: Time) {
        let this = &mut self.threads[thread];
        this.stores -= 1;
        if this.stores == 0 && this.is_draining {
            this.is_draining = false;
            let next = this.clock.max(now);
            self.at(next, Event::Resume(thread));
        }
    }

    fn count(&mut self, access: Access) {
        if !self.statistics.is_measuring {
            return;
        }
        let counts = &mut self.statistics.counts;
        counts.loads += u64::from(access.loads());
        counts.stores += u64::from(access.writes());
        counts.locked += u64::from(access == Access::Locked);
    }
}
