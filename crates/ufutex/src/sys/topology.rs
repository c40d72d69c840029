//! The nodes of a machine: how many it has, which one a thread is on, and memory near to a node.

use core::alloc::Layout;
use core::fmt;

use super::callbacks::{Callbacks, callbacks};
use super::host::nodes::HostTopology;
use super::zeroed;

/// As in the kernel.
pub const MAX_NODES: usize = 1024;

/// The nodes of a machine, perhaps a guest's. A [`PidNamespace`](crate::PidNamespace) has a global table for each node.
///
/// Its functions are called while a system is made, while a word without a node is looked up, and while a thread makes a table
/// or looks for the global one. In the last case the domain cannot be resized until they return, so they must not use the
/// domain. They may panic: then nothing has been made.
///
/// ```
/// use std::sync::Arc;
/// use ufutex::{SystemConfig, System, platform::Topology};
///
/// /// Two nodes; every thread is on the second.
/// struct Two;
///
/// impl Topology for Two {
///     fn nodes(&self) -> usize { 2 }
///     fn current_node(&self) -> u32 { 1 }
/// }
///
/// let system = System::with_config(SystemConfig::new().topology(Arc::new(Two)))?;
/// assert_eq!((system.nodes(), system.current_node()), (2, 1));
/// # Ok::<(), ufutex::Error>(())
/// ```
pub trait Topology: Send + Sync {
    /// One more than the number of the last node, from 1 to 1024. Called when a system or a namespace is made.
    fn nodes(&self) -> usize;

    /// Whether a node has this number: some machines leave some out. Called for all below `nodes()`, when a system or a
    /// namespace is made.
    fn has_node(&self, node: u32) -> bool {
        (node as usize) < self.nodes()
    }

    /// The node that the calling thread runs on. If no node has this number, the system uses its first node.
    fn current_node(&self) -> u32;

    /// The source of memory for tables. Called when a system is made. Provided: the global allocator, which ignores nodes.
    fn memory(&self) -> &'static dyn NodeMemory {
        &OneNode
    }
}

/// Memory that is near to a node.
///
/// # Safety
/// [`allocate`](Self::allocate) returns null, or zeroed memory of that layout, which has no other user until it is freed.
///
/// `allocate` may panic, as a [`Topology`] may. `free` must not: the rest of what was being freed leaks.
pub unsafe trait NodeMemory: Sync {
    /// Zeroed memory of `layout`, whose size is not 0, on `node` or as near to it as possible. Null if there is none.
    fn allocate(&self, layout: Layout, node: u32) -> *mut u8;

    /// Takes memory back.
    ///
    /// # Safety
    /// `memory` came from `allocate` with this `layout`, and is no longer used.
    unsafe fn free(&self, memory: *mut u8, layout: Layout);
}

/// A machine with one node, or one whose system lists none. Its memory is the global allocator's, which ignores nodes. On Linux a
/// page lies on the node of the thread that touches it first.
#[derive(Debug)]
pub struct OneNode;

impl Topology for OneNode {
    fn nodes(&self) -> usize {
        1
    }

    fn current_node(&self) -> u32 {
        0
    }
}

// SAFETY: the functions of `zeroed` promise the same.
unsafe impl NodeMemory for OneNode {
    fn allocate(&self, layout: Layout, _node: u32) -> *mut u8 {
        zeroed::allocate(layout)
    }

    unsafe fn free(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller guarantees it.
        unsafe { zeroed::free(memory, layout) }
    }
}

#[derive(Clone)]
pub enum Nodes {
    /// The host's, read when somebody wants to know.
    Host,
    /// With its memory, which is asked for once.
    Given(Callbacks<dyn Topology>, &'static dyn NodeMemory),
}

impl Nodes {
    pub fn new(given: Option<Callbacks<dyn Topology>>) -> Self {
        let Some(topology) = given else { return Self::Host };
        let memory = topology.memory();
        Self::Given(topology, memory)
    }

    pub fn are_the_hosts(&self) -> bool {
        matches!(self, Self::Host)
    }

    #[inline(never)]
    pub fn topology(&self) -> &dyn Topology {
        match self {
            Self::Host => HostTopology::get(),
            Self::Given(topology, _) => &**topology,
        }
    }

    pub fn memory(&self) -> &'static dyn NodeMemory {
        match self {
            Self::Host => HostTopology::get().memory(),
            Self::Given(_, memory) => *memory,
        }
    }
}

callbacks!(Topology);

#[derive(Clone, Default)]
pub struct Given(pub Option<Callbacks<dyn Topology>>);

impl fmt::Debug for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            None => f.write_str("the host's"),
            Some(topology) => write!(f, "{} nodes", topology.nodes()),
        }
    }
}
