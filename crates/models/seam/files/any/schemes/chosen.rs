//! All schemes in one copy: each domain has the one that its options name.

use super::Scheme as HowToReach;
use super::atomic::{self, Atomic};
use super::fixed::Fixed;
use super::percpu::{self, PerCpu};
use crate::error::Error;
use crate::table::tables::Tables;

/// How operations reach their bucket while tables change.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Scheme {
    /// The engine's own way: without a reference count, bucket by bucket.
    #[default]
    Live,
    /// One table for good.
    Fixed,
    /// One shared reference count.
    Atomic,
    /// A reference count for each CPU.
    PerCpu,
}

/// The scheme of a domain.
pub enum Chosen {
    Live,
    Fixed(Fixed),
    Atomic(Atomic),
    PerCpu(PerCpu),
}

/// Keeps the table in place: the pin of any scheme.
pub enum Pin<'a> {
    None,
    Atomic(atomic::Pin<'a>),
    PerCpu(percpu::Pin<'a>),
}

impl Chosen {
    pub fn of(scheme: Scheme) -> Self {
        match scheme {
            Scheme::Live => Self::Live,
            Scheme::Fixed => Self::Fixed(Fixed::new()),
            Scheme::Atomic => Self::Atomic(Atomic::new()),
            Scheme::PerCpu => Self::PerCpu(PerCpu::new()),
        }
    }
}

impl Tables {
    /// With this scheme, before the first operation.
    pub fn of_scheme(mut self, scheme: Scheme) -> Self {
        self.scheme = Chosen::of(scheme);
        self
    }
}

impl HowToReach for Chosen {
    type Pin<'a> = Pin<'a>;

    fn new() -> Self {
        Self::Live
    }

    fn is_live(&self) -> bool {
        matches!(self, Self::Live)
    }

    fn name(&self) {
        match self {
            Self::Live | Self::Fixed(_) => {}
            Self::Atomic(scheme) => scheme.name(),
            Self::PerCpu(scheme) => scheme.name(),
        }
    }

    fn look_up(&self, tables: &Tables, hash: u32) {
        match self {
            Self::Live | Self::Fixed(_) | Self::PerCpu(_) => {}
            Self::Atomic(scheme) => scheme.look_up(tables, hash),
        }
    }

    fn pin(&self) -> Pin<'_> {
        match self {
            Self::Live | Self::Fixed(_) => Pin::None,
            Self::Atomic(scheme) => Pin::Atomic(scheme.pin()),
            Self::PerCpu(scheme) => Pin::PerCpu(scheme.pin()),
        }
    }

    fn try_pin(&self) -> Option<Pin<'_>> {
        match self {
            Self::Live | Self::Fixed(_) => Some(Pin::None),
            Self::Atomic(scheme) => scheme.try_pin().map(Pin::Atomic),
            Self::PerCpu(scheme) => scheme.try_pin().map(Pin::PerCpu),
        }
    }

    fn proves_empty(&self, tables: &Tables, hash: u32) -> bool {
        match self {
            Self::Live => unreachable!("the engine's own way is used"),
            Self::Fixed(scheme) => scheme.proves_empty(tables, hash),
            Self::Atomic(scheme) => scheme.proves_empty(tables, hash),
            Self::PerCpu(scheme) => scheme.proves_empty(tables, hash),
        }
    }

    fn resize(
        &self,
        tables: &Tables,
        slots_log2: Option<u32>,
        keep_trying: &mut dyn FnMut() -> bool,
    ) -> Result<(), Error> {
        match self {
            Self::Live => unreachable!("the engine's own way is used"),
            Self::Fixed(scheme) => scheme.resize(tables, slots_log2, keep_trying),
            Self::Atomic(scheme) => scheme.resize(tables, slots_log2, keep_trying),
            Self::PerCpu(scheme) => scheme.resize(tables, slots_log2, keep_trying),
        }
    }
}
