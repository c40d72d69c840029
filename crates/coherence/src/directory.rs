//! The holders of a cache line: MESI, as a directory sees it.

use crate::set::Set;
use crate::topology::{Distance, Topology};

/// A line's holders.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Line {
    /// No core: the line is only in memory.
    #[default]
    Invalid,
    /// One core; the line is unchanged from memory.
    Exclusive(u16),
    /// One core; the line is newer than memory.
    Modified(u16),
    /// These cores; the line is unchanged from memory.
    Shared(Box<Set>),
}

/// Where an access gets its line from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Supply {
    /// The core has the line.
    Hit,
    /// Memory.
    Memory,
    /// The core at this distance, or any supplier after the core at this distance has given the line up.
    Core {
        /// The distance.
        distance: Distance,
        /// Whether that core had written to the line: what perf c2c calls HITM.
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

    /// Where `core` would get the line from to write to it, for which it must be the only holder.
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

    /// The only holder, if one core holds the line alone.
    #[must_use]
    pub fn owner(&self) -> Option<u16> {
        match self {
            Self::Exclusive(owner) | Self::Modified(owner) => Some(*owner),
            Self::Invalid | Self::Shared(_) => None,
        }
    }

    /// Notes that `core` has read the line.
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

    /// Notes that `core` has written to the line.
    pub fn write(&mut self, core: u16) {
        *self = Self::Modified(core);
    }
}
