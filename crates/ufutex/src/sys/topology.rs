//! The nodes of a machine: how many there are, which one a thread is on, and memory that is near to one.

use alloc::alloc::{alloc_zeroed, dealloc};
use alloc::sync::Arc;
use core::alloc::Layout;
use core::fmt;

/// The most nodes that there can be, as in the kernel.
pub const MAX_NODES: usize = 1024;

/// The nodes of a machine, or of the machine that a guest believes it runs on.
///
/// Its functions are called while a system or a domain is made, while a word without a node is looked up, and while a
/// thread makes a table. In the last case the domain cannot be resized until they return, so they must not use the
/// domain. They may panic: then nothing has been made, the table in use stays in use, and the panic goes to the caller.
///
/// A [`System`](crate::System) has a global table for each node. A topology of an embedder's own gives a guest the nodes
/// that it was promised, and a test several of them where there is one.
///
/// ```
/// use std::sync::Arc;
/// use ufutex::{Config, System, Topology, layout::Lean};
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
/// let system = System::<Lean>::with_config(Config::new().topology(Arc::new(Two)))?;
/// assert_eq!((system.nodes(), system.current_node()), (2, 1));
/// # Ok::<(), ufutex::Error>(())
/// ```
pub trait Topology: Send + Sync {
    /// One more than the number of the last node; at least 1, at most 1024. Asked when a system is made.
    fn nodes(&self) -> usize;

    /// Whether there is a node of this number: some machines leave numbers out. Asked when a system is made, for every
    /// number below [`nodes`](Self::nodes).
    fn has_node(&self, node: u32) -> bool {
        (node as usize) < self.nodes()
    }

    /// The node that the calling thread runs on. Where there is no such node the system takes its first.
    fn current_node(&self) -> u32;

    /// Where tables get their memory. Asked when a system is made. As given here: the global allocator, which knows of
    /// no nodes.
    fn memory(&self) -> &'static dyn NodeMemory {
        &AnyMemory
    }
}

/// Memory that is near to a node.
///
/// # Safety
/// What [`allocate`](Self::allocate) answers is null, or memory of that layout, all zeroes, that is nobody else's until
/// [`free`](Self::free) takes it back.
///
/// `allocate` may panic, as the functions of a [`Topology`] may. `free` must not panic: if it does, the rest of what
/// was being freed leaks.
pub unsafe trait NodeMemory: Sync {
    /// Zeroed memory of `layout`, whose size is not 0, on `node` or as near as there is some; null when none can be had.
    fn allocate(&self, layout: Layout, node: u32) -> *mut u8;

    /// Takes memory back.
    ///
    /// # Safety
    /// `memory` came from `allocate` with this `layout`, and nobody uses it.
    unsafe fn free(&self, memory: *mut u8, layout: Layout);
}

/// The global allocator's memory, wherever it lies: on Linux, where it is touched first.
pub struct AnyMemory;

// SAFETY: what a global allocator promises, whose `alloc_zeroed` this is.
unsafe impl NodeMemory for AnyMemory {
    fn allocate(&self, layout: Layout, _node: u32) -> *mut u8 {
        // SAFETY: the layout's size is not 0.
        unsafe { alloc_zeroed(layout) }
    }

    unsafe fn free(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: says the caller.
        unsafe { dealloc(memory, layout) }
    }
}

/// One node, and nothing known of it.
#[cfg_attr(feature = "_host", expect(dead_code, reason = "the host's topology is known there"))]
struct OneNode;

impl Topology for OneNode {
    fn nodes(&self) -> usize {
        1
    }
    fn current_node(&self) -> u32 {
        0
    }
}

/// The topology that a system was made with, and the memory that it named then: a handle.
#[derive(Clone)]
pub struct Nodes {
    topology: Source,
    memory: &'static dyn NodeMemory,
}

#[derive(Clone)]
enum Source {
    Host(&'static dyn Topology),
    Given(Arc<dyn Topology>),
}

impl Nodes {
    /// `given`, or the host's.
    pub fn new(given: Option<Arc<dyn Topology>>) -> Self {
        let topology = given.map_or_else(|| Source::Host(host()), Source::Given);
        let memory = topology.get().memory();
        Self { topology, memory }
    }

    /// The topology itself.
    pub fn topology(&self) -> &dyn Topology {
        self.topology.get()
    }

    /// Where memory comes from, and goes back to.
    pub fn memory(&self) -> &'static dyn NodeMemory {
        self.memory
    }
}

impl Source {
    fn get(&self) -> &dyn Topology {
        match self {
            Self::Host(topology) => *topology,
            Self::Given(topology) => &**topology,
        }
    }
}

#[cfg(feature = "_host")]
fn host() -> &'static dyn Topology {
    super::host_nodes::HostTopology::get()
}

/// A model must behave the same each time, and without an operating system nothing is known.
#[cfg(not(feature = "_host"))]
fn host() -> &'static dyn Topology {
    &OneNode
}

/// A topology in a configuration: an `Arc` that can be printed.
#[derive(Clone, Default)]
pub struct Given(pub Option<Arc<dyn Topology>>);

impl fmt::Debug for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            None => f.write_str("the host's"),
            Some(topology) => write!(f, "{} nodes", topology.nodes()),
        }
    }
}
