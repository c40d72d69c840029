//! The platform: guest memory, clocks, sleeping, nodes. No module here depends on futexes.

pub(crate) mod admission;
pub(crate) mod callbacks;
pub(crate) mod clock;
pub(crate) mod counted;
pub(crate) mod flat_memory;
pub(crate) mod host;
pub(crate) mod lazy;
pub(crate) mod mem;
pub(crate) mod park;
pub(crate) mod platform;
pub(crate) mod probe;
pub(crate) mod random;
pub(crate) mod setters;
pub(crate) mod topology;
pub(crate) mod unwind;
pub(crate) mod zeroed;
