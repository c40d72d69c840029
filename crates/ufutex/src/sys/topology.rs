//! The nodes of a machine: how many it has, which one a thread is on, and memory near to a node.

use core::alloc::Layout;
use core::fmt;

use super::callbacks::{Callbacks, callbacks};
use super::host::nodes::HostTopology;
use super::zeroed;

/// The greatest number of nodes, as in the kernel.
pub const MAX_NODES: usize = 1024;

/// The nodes of a machine, or of the machine that a guest believes it runs on. A
/// [`PidNamespace`](crate::PidNamespace) has a global table for each node.
///
/// Its functions are called while a system is made, while a word without a node is looked up, and while a thread makes
/// a table or looks for the global table. In the last case the domain cannot be resized until they return, so they must
/// not use the domain. They may panic: then nothing has been made, and the panic reaches the caller.
///
/// ```
/// use std::sync::Arc;
/// use ufutex::{SystemConfig, System, platform::Topology};
///
/// /// Two nodes; every thread is on the second.
/// struct Two;
///
/// impl Topology for Two {
///     fn nodes(&self) -> usize {
///         2
///     }
///     fn current_node(&self) -> u32 {
///         1
///     }
/// }
///
/// let system = System::with_config(SystemConfig::new().topology(Arc::new(Two)))?;
/// assert_eq!((system.nodes(), system.current_node()), (2, 1));
/// # Ok::<(), ufutex::Error>(())
/// ```
pub trait Topology: Send + Sync {
    /// One more than the number of the last node, from 1 to 1024. Called when a system is made.
    fn nodes(&self) -> usize;

    /// Whether a node has this number: some machines leave numbers out. Called for every number below
    /// [`nodes`](Self::nodes) when a system is made.
    fn has_node(&self, node: u32) -> bool {
        (node as usize) < self.nodes()
    }

    /// The node that the calling thread runs on. If no node has this number, the system uses its first node.
    fn current_node(&self) -> u32;

    /// The source of memory for tables. Called when a system is made. The provided implementation returns the global
    /// allocator, which ignores nodes.
    fn memory(&self) -> &'static dyn NodeMemory {
        &AnyMemory
    }
}

/// Memory that is near to a node.
///
/// # Safety
/// [`allocate`](Self::allocate) returns null, or zeroed memory of that layout, which has no other user until
/// [`free`](Self::free) takes it back.
///
/// `allocate` may panic, as the functions of a [`Topology`] may. `free` must not panic: if it does, the rest of what
/// was being freed leaks.
pub unsafe trait NodeMemory: Sync {
    /// Zeroed memory of `layout`, whose size is not 0, on `node` or as near to it as possible. Returns null if there is
    /// no memory.
    fn allocate(&self, layout: Layout, node: u32) -> *mut u8;

    /// Takes memory back.
    ///
    /// # Safety
    /// `memory` came from `allocate` with this `layout`, and is no longer used.
    unsafe fn free(&self, memory: *mut u8, layout: Layout);
}

/// The global allocator's memory, on any node. On Linux a page lies on the node of the thread that touches it first.
pub struct AnyMemory;

// SAFETY: the functions of `zeroed` promise the same.
unsafe impl NodeMemory for AnyMemory {
    fn allocate(&self, layout: Layout, _node: u32) -> *mut u8 {
        zeroed::allocate(layout)
    }

    unsafe fn free(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller guarantees it.
        unsafe { zeroed::free(memory, layout) }
    }
}

/// The topology that a system was made with.
#[derive(Clone)]
pub enum Nodes {
    /// The host's, which is read when somebody wants to know.
    Host,
    /// With the memory that it named first.
    Given(Callbacks<dyn Topology>, &'static dyn NodeMemory),
}

impl Nodes {
    /// Uses `given`, or the host's topology if it is `None`.
    pub fn new(given: Option<Callbacks<dyn Topology>>) -> Self {
        let Some(topology) = given else { return Self::Host };
        let memory = topology.memory();
        Self::Given(topology, memory)
    }

    pub fn are_the_hosts(&self) -> bool {
        matches!(self, Self::Host)
    }

    pub fn topology(&self) -> &dyn Topology {
        match self {
            Self::Host => HostTopology::get(),
            Self::Given(topology, _) => &**topology,
        }
    }

    /// The source of memory, which also takes it back.
    pub fn memory(&self) -> &'static dyn NodeMemory {
        match self {
            Self::Host => HostTopology::get().memory(),
            Self::Given(_, memory) => *memory,
        }
    }
}

callbacks!(Topology);

/// A topology in a configuration, which can be printed.
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
