//! The nodes of a host of which the engine does not read them: every host but Linux, and no host.

use super::super::topology::Topology;

/// The machine that this program runs on.
#[derive(Debug)]
pub struct HostTopology(());

impl HostTopology {
    /// This machine's topology: one node. An embedder that knows more gives a [`Topology`] of its own.
    pub fn get() -> &'static Self {
        &Self(())
    }
}

impl Topology for HostTopology {
    fn nodes(&self) -> usize {
        1
    }

    fn current_node(&self) -> u32 {
        0
    }
}
