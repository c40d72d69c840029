//! The embedder's nodes, and its memory on them.

use core::alloc::Layout;
use core::ffi::c_void;
use core::ptr;
use std::alloc::{alloc_zeroed, dealloc};
use std::sync::atomic::{
    AtomicPtr,
    Ordering::{Acquire, Release},
};

use engine::Callbacks;
use engine::platform::{NodeMemory, Topology};

use crate::abi;
use crate::errno::Errno;
use crate::registry::boxed;
use crate::types::ufutex_topology;

/// The greatest number of nodes, as in the kernel.
const MAX_NODES: u32 = 1024;

/// A program's `struct ufutex_topology`.
pub(crate) struct Nodes {
    context: *mut c_void,
    nodes: u32,
    /// A bit for each node that exists.
    existing: [u64; MAX_NODES as usize / 64],
    first: u32,
    current_node: unsafe extern "C" fn(*mut c_void) -> u32,
    memory: &'static dyn NodeMemory,
}

// SAFETY: the program promises that any thread may call its functions.
unsafe impl Send for Nodes {}
// SAFETY: as above.
unsafe impl Sync for Nodes {}

impl Nodes {
    /// Reads a program's struct. `None` for a null pointer.
    ///
    /// # Safety
    /// As for [`abi::read`], and the functions do what `ufutex.h` requires.
    pub unsafe fn read(from: *const ufutex_topology) -> Result<Option<Callbacks<Self>>, Errno> {
        // SAFETY: the caller guarantees it.
        let Some(said) = (unsafe { abi::read(from)? }) else { return Ok(None) };
        let ufutex_topology { context, nodes, has_node, .. } = said;
        let current_node = said.current_node.ok_or(Errno::INVALID)?;
        if nodes > MAX_NODES || said.reserved != 0 {
            return Err(Errno::INVALID);
        }
        let memory: &'static dyn NodeMemory = match (said.allocate, said.free) {
            (None, None) => &Heap,
            (Some(allocate), Some(free)) => Given::get(Functions { context, allocate, free })?,
            _ => return Err(Errno::INVALID),
        };
        let mut existing = [0; MAX_NODES as usize / 64];
        for node in 0..nodes {
            // SAFETY: a function of the program, with the context that was given with it.
            if has_node.is_none_or(|has_node| unsafe { has_node(context, node) != 0 }) {
                existing[node as usize / 64] |= 1 << (node % 64);
            }
        }
        let has = |node: &u32| existing[*node as usize / 64] >> (node % 64) & 1 != 0;
        let first = (0..nodes).find(has).ok_or(Errno::INVALID)?;
        Ok(Some(Callbacks::try_new(Self { context, nodes, existing, first, current_node, memory })?))
    }
}

impl Topology for Nodes {
    fn nodes(&self) -> usize {
        self.nodes as usize
    }

    fn has_node(&self, node: u32) -> bool {
        self.existing.get(node as usize / 64).is_some_and(|bits| bits >> (node % 64) & 1 != 0)
    }

    /// Always a node that exists, because the engine asks for memory on it.
    fn current_node(&self) -> u32 {
        // SAFETY: a function of the program, with the context that was given with it.
        let node = unsafe { (self.current_node)(self.context) };
        if self.has_node(node) { node } else { self.first }
    }

    fn memory(&self) -> &'static dyn NodeMemory {
        self.memory
    }
}

/// The allocator's memory, on any node.
struct Heap;

// SAFETY: these are the allocator's functions, which promise the same.
unsafe impl NodeMemory for Heap {
    fn allocate(&self, layout: Layout, _node: u32) -> *mut u8 {
        // SAFETY: the layout's size is not 0.
        unsafe { alloc_zeroed(layout) }
    }

    unsafe fn free(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller guarantees it.
        unsafe { dealloc(memory, layout) }
    }
}

#[derive(Clone, Copy)]
struct Functions {
    context: *mut c_void,
    allocate: unsafe extern "C" fn(*mut c_void, usize, usize, u32) -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void, *mut c_void, usize),
}

/// A program's memory. The engine keeps references to it that have no end, so it is never freed. There is one for each
/// different context with its functions.
struct Given {
    functions: Functions,
    /// The one that was made before.
    next: *const Given,
}

/// The one that was made last. A list that only grows needs no care in a child of fork(2).
static ALL: AtomicPtr<Given> = AtomicPtr::new(ptr::null_mut());

// SAFETY: the program promises that any thread may call its functions. The rest does not change.
unsafe impl Send for Given {}
// SAFETY: as above.
unsafe impl Sync for Given {}

impl Given {
    fn get(functions: Functions) -> Result<&'static Self, Errno> {
        let first = ALL.load(Acquire); // [Cn]
        // SAFETY: those in the list are initialised, and are never freed.
        let mut all = core::iter::successors(unsafe { first.as_ref() }, |given| unsafe { given.next.as_ref() });
        if let Some(given) = all.find(|given| given.is(functions)) {
            return Ok(given);
        }
        let given = Box::leak(boxed(Self { functions, next: first })?);
        let mut last = first;
        // Another thread may have added the same one meanwhile. Then there are two, which does no harm. [Cn]
        while let Err(now) = ALL.compare_exchange(last, given, Release, Acquire) {
            last = now;
            given.next = now;
        }
        Ok(given)
    }

    fn is(&self, Functions { context, allocate, free }: Functions) -> bool {
        let own = &self.functions;
        own.context == context && ptr::fn_addr_eq(own.allocate, allocate) && ptr::fn_addr_eq(own.free, free)
    }
}

// SAFETY: the program promises it in `ufutex.h`, except for the alignment, which is checked.
unsafe impl NodeMemory for Given {
    fn allocate(&self, layout: Layout, node: u32) -> *mut u8 {
        let Functions { context, allocate, free } = self.functions;
        // SAFETY: a function of the program, with the context that was given with it.
        let memory = unsafe { allocate(context, layout.size(), layout.align(), node) };
        if memory.addr().is_multiple_of(layout.align()) {
            return memory.cast();
        }
        // SAFETY: as above.
        unsafe { free(context, memory, layout.size()) };
        ptr::null_mut()
    }

    unsafe fn free(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: a function of the program, with memory that its `allocate` has returned.
        unsafe { (self.functions.free)(self.functions.context, memory.cast(), layout.size()) };
    }
}
