//! The times of a topology, in the units of the clock.

use super::Time;
use crate::directory::Supply;
use crate::topology::{Distance, Topology};

/// Times in picoseconds.
pub struct Costs {
    pub hit: Time,
    pub store: Time,
    pub locked: Time,
    pub barrier: Time,
    pub pause: Time,
    pub hold: Time,
    pub window: Time,
    pub syscall: Time,
    pub sleep: Time,
    pub wake: Time,
    pub wakeup: Time,
    pub switch: Time,
    pub slice: Time,
    pub membarrier: Time,
    /// The range of the random differences between the times at which cores begin.
    pub stagger: Time,
    memory: Time,
    transfers: [Time; 4],
}

/// Converts nanoseconds, as a topology's file or a caller gives them, to picoseconds.
pub fn ps(ns: f64) -> Time {
    (ns * 1000.0) as Time
}

impl Costs {
    pub fn new(topology: &Topology) -> Self {
        let (l, t) = (&topology.latency, &topology.thread);
        let transfer = |distance| ps(topology.transfer(distance));
        Self {
            hit: ps(l.hit),
            store: ps(l.store),
            locked: ps(l.locked),
            barrier: ps(l.barrier),
            pause: ps(l.pause),
            hold: ps(l.hold),
            window: ps(l.window),
            syscall: ps(t.syscall),
            sleep: ps(t.sleep),
            wake: ps(t.wake),
            wakeup: ps(t.wakeup),
            switch: ps(t.switch),
            slice: ps(t.slice),
            membarrier: ps(t.membarrier),
            stagger: ps(l.socket).max(1),
            memory: ps(l.memory),
            transfers: [Distance::Smt, Distance::Chiplet, Distance::Socket, Distance::Far].map(transfer),
        }
    }

    /// How long a line takes to arrive.
    pub fn supply(&self, supply: Supply) -> Time {
        match supply {
            Supply::Hit => 0,
            Supply::Memory => self.memory,
            Supply::Core { distance, .. } => self.transfers[distance as usize],
        }
    }
}
