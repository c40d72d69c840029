//! The platform: guest memory, clocks, sleeping, barriers, nodes. No module here depends on futexes.

pub(crate) mod barrier;
pub(crate) mod clock;
pub(crate) mod counted;
pub(crate) mod host;
#[cfg(feature = "std")]
pub(crate) mod host_nodes;
pub(crate) mod mem;
pub(crate) mod park;
pub(crate) mod platform;
pub(crate) mod probe;
pub(crate) mod random;
#[cfg(feature = "std")]
#[cfg_attr(feature = "sim", allow(dead_code, reason = "virtual threads make no system calls"))]
pub(crate) mod syscall;
pub(crate) mod topology;
pub(crate) mod unwind;
