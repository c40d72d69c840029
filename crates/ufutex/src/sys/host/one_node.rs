//! The nodes of a host of which the engine does not read them: every host but Linux, and no host.

pub use super::super::topology::OneNode as HostTopology;

impl HostTopology {
    /// This machine's topology: one node. An embedder that knows more gives a
    /// [`Topology`](crate::platform::Topology) of its own.
    pub fn get() -> &'static Self {
        &Self
    }
}
