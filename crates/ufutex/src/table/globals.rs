//! The tables of a `System`: one for each node of the machine.
//!
//! Keys that are looked up here name their table in the low bits of their hash: bits that no table is large enough to
//! use for its index. So code that has a key and its hash (a queue's entry, for one) can find the table as well. On a
//! machine with one node the bits are not needed.

use alloc::vec::Vec;

use super::layout::Layout;
use super::store::{free, make, make_all_live};
use super::{MAX_SLOTS_LOG2, Table};
use crate::error::Error;
use crate::sys::platform::PlatformRef;
use crate::sys::topology::{MAX_NODES, Nodes};

/// The number of hash bits that hold the node.
const NODE_BITS: u32 = MAX_NODES.ilog2();
const NODE: u32 = (1 << NODE_BITS) - 1;

/// log2 of the largest number of slots that each of several tables can have. An index must not use the node's bits.
pub const MAX_SLOTS_PER_NODE_LOG2: u32 = {
    let unused = super::HASH_BITS - NODE_BITS;
    if unused < MAX_SLOTS_LOG2 { unused } else { MAX_SLOTS_LOG2 }
};

/// The tables of a `System`. Dropping this frees them; the system does so when its last user is gone.
pub struct Globals<L: Layout> {
    /// By number of the node. `None` means that the machine has no node with that number.
    tables: Vec<Option<Table<L>>>,
    /// The lowest number of a node.
    first: u32,
    nodes: Nodes,
}

impl<L: Layout> Globals<L> {
    /// Makes a table of `1 << slots_log2` slots on each of the nodes below `count`. All buckets are live.
    ///
    /// # Errors
    /// [`Error::NoMemory`]; [`Error::Invalid`] if there is no node at all.
    pub fn new(on: PlatformRef, nodes: Nodes, count: usize, slots_log2: u32) -> Result<Self, Error> {
        let mut globals = Self { tables: Vec::new(), first: 0, nodes };
        globals.tables.try_reserve_exact(count).map_err(|_| Error::NoMemory)?;
        for node in 0..count as u32 {
            // Pushed one by one: if a table cannot be made, dropping `globals` frees those before it.
            globals.tables.push(None);
            if globals.nodes.topology().has_node(node) {
                let table = make(slots_log2, on, globals.nodes.memory(), node).ok_or(Error::NoMemory)?;
                make_all_live(table);
                globals.tables[node as usize] = Some(table);
            }
        }
        globals.first = globals.tables.iter().position(Option::is_some).ok_or(Error::Invalid)? as u32;
        Ok(globals)
    }

    /// The memory and topology that the tables were made with.
    pub fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// The highest number of a node, plus one.
    pub fn count(&self) -> usize {
        self.tables.len()
    }

    /// Whether the machine has a node with this number.
    pub fn has_node(&self, node: u32) -> bool {
        self.tables.get(node as usize).is_some_and(Option::is_some)
    }

    /// The node that the calling thread runs on, or the first node if that has no table.
    pub fn current_node(&self) -> u32 {
        let node = self.nodes.topology().current_node();
        if self.has_node(node) { node } else { self.first }
    }

    /// The table of `node`, or of the first node if `node` does not exist.
    pub fn on(&self, node: u32) -> Table<L> {
        let table = |node: u32| self.tables.get(node as usize).copied().flatten();
        table(node).or_else(|| table(self.first)).expect("there is a first node")
    }

    /// All tables.
    pub fn tables(&self) -> impl Iterator<Item = Table<L>> {
        self.tables.iter().copied().flatten()
    }

    /// `hash` with its low bits changed to name a table: that of `node`, or, without a node, one that the bits
    /// themselves pick.
    ///
    /// As in the kernel, the choice is not quite even if the number of nodes is no power of two or numbers are left
    /// out.
    // Not inlined, and `placed` is not either: so on a machine with one node a shared key costs one comparison more.
    #[inline(never)]
    pub fn place(&self, hash: u32, node: Option<u32>) -> u32 {
        let count = self.tables.len() as u32;
        let node = node.filter(|&node| self.has_node(node)).unwrap_or_else(|| {
            let picked = ((hash & NODE) * count) >> NODE_BITS;
            (picked..count).find(|&node| self.has_node(node)).unwrap_or(self.first)
        });
        (hash & !NODE) | node
    }

    /// The table that a hash from [`place`](Self::place) names.
    #[inline(never)]
    pub fn placed(&self, hash: u32) -> Table<L> {
        self.on(hash & NODE)
    }
}

impl<L: Layout> Drop for Globals<L> {
    fn drop(&mut self) {
        for table in self.tables.drain(..).flatten() {
            // SAFETY: made in this memory. The system drops this only when no thread uses the tables any more.
            unsafe { free(table, self.nodes.memory()) };
        }
    }
}
