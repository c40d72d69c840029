//! Who holds a cache line: MESI, as a directory sees it.

use crate::set::Set;
use crate::topology::{Distance, Topology};

/// A line's holders.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Line {
    /// Nobody: it is in memory.
    #[default]
    Invalid,
    /// One core, as memory has it.
    Exclusive(u16),
    /// One core, newer than memory.
    Modified(u16),
    /// These, as memory has it.
    Shared(Box<Set>),
}

/// Where an access gets its line from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Supply {
    /// It is here.
    Hit,
    /// From memory.
    Memory,
    /// From the core at this distance, or after the one at this distance has given it up.
    Core {
        /// How far.
        distance: Distance,
        /// That core had written to it: what perf c2c calls HITM.
        modified: bool,
    },
}

impl Line {
    /// Where `core` would get the line from to read it.
    #[must_use]
    pub fn supply_read(&self, core: u16, topology: &Topology) -> Supply {
        match self {
            Self::Invalid => Supply::Memory,
            Self::Exclusive(owner) | Self::Modified(owner) if *owner == core => Supply::Hit,
            Self::Exclusive(owner) => Supply::Core { distance: topology.distance(core, *owner), modified: false },
            Self::Modified(owner) => Supply::Core { distance: topology.distance(core, *owner), modified: true },
            Self::Shared(holders) if holders.contains(core) => Supply::Hit,
            Self::Shared(holders) => holders
                .iter()
                .map(|holder| topology.distance(core, holder))
                .min()
                .map_or(Supply::Memory, |distance| Supply::Core { distance, modified: false }),
        }
    }

    /// Where `core` would get the line from to write to it: it must have it alone.
    #[must_use]
    pub fn supply_write(&self, core: u16, topology: &Topology) -> Supply {
        match self {
            Self::Shared(holders) => holders
                .iter()
                .filter(|holder| *holder != core)
                .map(|holder| topology.distance(core, holder))
                .max()
                .map_or(Supply::Hit, |distance| Supply::Core { distance, modified: false }),
            _ => self.supply_read(core, topology),
        }
    }

    /// Who has it alone.
    #[must_use]
    pub fn owner(&self) -> Option<u16> {
        match self {
            Self::Exclusive(owner) | Self::Modified(owner) => Some(*owner),
            Self::Invalid | Self::Shared(_) => None,
        }
    }

    /// `core` has read it.
    pub fn read(&mut self, core: u16) {
        match self {
            Self::Invalid => *self = Self::Exclusive(core),
            Self::Exclusive(owner) | Self::Modified(owner) if *owner == core => {}
            Self::Exclusive(owner) | Self::Modified(owner) => {
                *self = Self::Shared(Box::new([*owner, core].into_iter().collect()));
            }
            Self::Shared(holders) => holders.insert(core),
        }
    }

    /// `core` has written to it.
    pub fn write(&mut self, core: u16) {
        *self = Self::Modified(core);
    }
}
