//! A simulated NUMA machine, which may have more nodes than the host.

use std::alloc::{GlobalAlloc, Layout as MemoryLayout, System as Allocator};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use ufutex::{
    Error, System, SystemConfig,
    platform::{NodeMemory, Topology},
};

/// A topology in which the test decides which nodes exist and on which node the threads run.
pub struct Machine {
    has: Vec<bool>,
    current: AtomicU32,
    memory: &'static Memory,
}

/// An allocator that records on which node each piece of memory was allocated.
#[derive(Default)]
pub struct Memory {
    pieces: Mutex<Vec<Piece>>,
    /// One more than the number of the node whose memory is exhausted. `0` means that none is.
    exhausted: AtomicU32,
}

#[derive(Clone, Copy)]
struct Piece {
    address: usize,
    bytes: usize,
    node: u32,
}

impl Machine {
    /// A machine with the nodes `0..count`. All threads run on node 0 at first.
    pub fn new(count: usize) -> Arc<Self> {
        Self::with(&vec![true; count])
    }

    /// As `new`, but node `n` exists only if `has[n]` is true.
    pub fn with(has: &[bool]) -> Arc<Self> {
        let memory = Box::leak(Box::default());
        Arc::new(Self { has: has.to_vec(), current: AtomicU32::new(0), memory })
    }

    /// Moves all threads to `node`.
    pub fn go_to(&self, node: u32) {
        self.current.store(node, Ordering::Relaxed);
    }

    /// Makes every allocation on `node` fail. `None` makes all allocations succeed again.
    pub fn exhaust(&self, node: Option<u32>) {
        self.memory.exhausted.store(node.map_or(0, |node| node + 1), Ordering::Relaxed);
    }

    /// A system of two CPUs on this machine, with 16 slots on each node and a fixed hash seed.
    pub fn system(self: &Arc<Self>) -> Result<System, Error> {
        System::with_config(SystemConfig::new().cpus(2).global_slots(16).hash_seed(1).topology(self.clone()))
    }

    /// The number of pieces of memory that are allocated on each node.
    pub fn pieces(&self) -> Vec<usize> {
        let pieces = self.memory.pieces.lock().expect("not poisoned");
        (0..self.has.len() as u32).map(|node| pieces.iter().filter(|piece| piece.node == node).count()).collect()
    }

    /// The bytes of all memory that is allocated on `node`. No other thread may use that memory meanwhile.
    pub fn contents(&self, node: u32) -> Vec<u8> {
        let pieces = self.memory.pieces.lock().expect("not poisoned");
        let on_node = pieces.iter().filter(|piece| piece.node == node);
        let bytes = |piece: &Piece| {
            let start = std::ptr::with_exposed_provenance::<u8>(piece.address);
            // SAFETY: the piece is allocated, and was zeroed, so all of it is initialised.
            unsafe { std::slice::from_raw_parts(start, piece.bytes) }.to_vec()
        };
        on_node.flat_map(bytes).collect()
    }
}

impl Topology for Machine {
    fn nodes(&self) -> usize {
        self.has.len()
    }
    fn has_node(&self, node: u32) -> bool {
        self.has.get(node as usize).copied().unwrap_or(false)
    }
    fn current_node(&self) -> u32 {
        self.current.load(Ordering::Relaxed)
    }
    fn memory(&self) -> &'static dyn NodeMemory {
        self.memory
    }
}

// SAFETY: memory comes zeroed from the system's allocator.
unsafe impl NodeMemory for Memory {
    fn allocate(&self, layout: MemoryLayout, node: u32) -> *mut u8 {
        if self.exhausted.load(Ordering::Relaxed) == node + 1 {
            return std::ptr::null_mut();
        }
        // SAFETY: the layout's size is not 0.
        let memory = unsafe { Allocator.alloc_zeroed(layout) };
        let piece = Piece { address: memory.expose_provenance(), bytes: layout.size(), node };
        self.pieces.lock().expect("not poisoned").push(piece);
        memory
    }

    unsafe fn free(&self, memory: *mut u8, layout: MemoryLayout) {
        let mut pieces = self.pieces.lock().expect("not poisoned");
        let index = pieces.iter().position(|piece| piece.address == memory.addr()).expect("allocated here");
        assert_eq!(pieces.swap_remove(index).bytes, layout.size(), "freed as it was allocated");
        // SAFETY: allocated with this layout.
        unsafe { Allocator.dealloc(memory, layout) }
    }
}
