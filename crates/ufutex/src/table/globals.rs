//! The global tables of a PID namespace: one for each node of the machine.
//!
//! The low bits of a key's hash, which no table uses for its index, name its table, unless the machine has one node.
//!
//! The tables are made when the first waiter needs one. It must not fail for lack of memory, so smaller ones are tried as well,
//! and a namespace has a table of two slots from the beginning, which takes the place of all others if none can be made.

use alloc::vec::Vec;

use super::store::{Source, free, make, make_all_live};
use super::{MAX_SLOTS_LOG2, MIN_SLOTS_LOG2, Table};
use crate::error::Error;
use crate::sync::{AtomicUsize, Ordering};
use crate::sys::host::online;
use crate::sys::lazy::Lazy;
use crate::sys::topology::{MAX_NODES, Nodes, OneNode};

const NODE_BITS: u32 = MAX_NODES.ilog2();
const NODE: u32 = (1 << NODE_BITS) - 1;

/// log2 of the largest size of each of several tables. An index must not use the node's bits.
const MAX_SLOTS_PER_NODE_LOG2: u32 = super::HASH_BITS - NODE_BITS;
const _: () = assert!(MAX_SLOTS_PER_NODE_LOG2 < MAX_SLOTS_LOG2);

#[derive(Clone, Copy)]
pub struct GlobalSize {
    /// 0: not known yet.
    cpus: usize,
    /// As it was given.
    slots_log2: Option<u32>,
}

impl GlobalSize {
    pub fn new(cpus: Option<usize>, slots_log2: Option<u32>) -> Self {
        Self { cpus: cpus.unwrap_or(0), slots_log2 }
    }

    /// # Errors
    /// [`Error::Invalid`] if `nodes` is not from 1 to 1024, or if the given number of slots is too large for a node's table.
    pub fn log2(&self, nodes: usize) -> Result<u32, Error> {
        if !(1..=MAX_NODES).contains(&nodes) {
            return Err(Error::Invalid);
        }
        let max_log2 = if nodes == 1 { MAX_SLOTS_LOG2 } else { MAX_SLOTS_PER_NODE_LOG2 };
        let by_cpus = || (self.cpus.saturating_mul(256) / nodes).max(4).min(1 << max_log2);
        let log2 = self.slots_log2.unwrap_or_else(|| by_cpus().next_power_of_two().ilog2());
        if log2 <= max_log2 { Ok(log2) } else { Err(Error::Invalid) }
    }
}

pub struct Globals {
    by_node: Lazy<ByNode>,
    small: Table,
    pub source: Source,
    size: GlobalSize,
    /// 0 until the first thread needs the number.
    cpus: AtomicUsize,
}

impl Globals {
    /// Makes the small table, and the tables of nodes that the embedder gave. Those of the host's nodes are made on demand.
    ///
    /// # Errors
    /// [`Error::NoMemory`]; [`Error::Invalid`] if there is no node at all, or if `size` does not fit the nodes.
    pub fn new(source: Source, size: GlobalSize) -> Result<Self, Error> {
        let is_host = source.nodes.are_the_hosts();
        if is_host && size.slots_log2.is_some_and(|log2| log2 > MAX_SLOTS_PER_NODE_LOG2) {
            // Only so large a number needs to know the host's nodes now.
            size.log2(source.nodes.topology().nodes())?;
        }
        let small = make(MIN_SLOTS_LOG2, source.on, &OneNode, 0).ok_or(Error::NoMemory)?;
        make_all_live(small);
        let globals = Self { by_node: Lazy::new(), small, source, size, cpus: AtomicUsize::new(size.cpus) };
        if !is_host {
            globals.by_node.get_or_make(|| globals.make_by_node())?;
        }
        Ok(globals)
    }

    /// Tables of the same size, for another namespace. Fails as [`new`](Self::new) does.
    pub fn another(&self) -> Result<Self, Error> {
        Self::new(self.source.clone(), self.size)
    }

    /// The number of CPUs: if it was not given, of those that the first thread to need it may use. It does not change later.
    pub fn cpus(&self) -> usize {
        let known = self.cpus.load(Ordering::Relaxed); // a number that never changes
        if known != 0 { known } else { self.count_cpus() }
    }

    #[cold]
    fn count_cpus(&self) -> usize {
        let cpus = online();
        // Another thread may have counted differently.
        self.cpus.compare_exchange(0, cpus, Ordering::Relaxed, Ordering::Relaxed).err().unwrap_or(cpus)
    }

    fn size(&self) -> GlobalSize {
        GlobalSize { cpus: self.cpus(), ..self.size }
    }

    pub fn slots_log2(&self) -> u32 {
        self.tables().next().map_or_else(|| self.wanted_log2(), Table::slots_log2)
    }

    /// What `slots_log2` is once the tables have been made, unless memory is refused.
    pub fn wanted_log2(&self) -> u32 {
        self.size().log2(self.count()).unwrap_or(MIN_SLOTS_LOG2)
    }

    /// The highest number of a node, plus one.
    pub fn count(&self) -> usize {
        self.by_node.get().map_or_else(|| self.source.nodes.topology().nodes(), |by_node| by_node.tables.len())
    }

    pub fn has_node(&self, node: u32) -> bool {
        match self.by_node.get() {
            Some(by_node) => by_node.on(node).is_some(),
            None => self.source.nodes.topology().has_node(node),
        }
    }

    fn first(&self) -> u32 {
        (0..self.count() as u32).find(|&node| self.has_node(node)).unwrap_or(0)
    }

    /// The node of the calling thread, or the first node if that has no table.
    pub fn current_node(&self) -> u32 {
        let node = self.source.nodes.topology().current_node();
        if self.has_node(node) { node } else { self.first() }
    }

    /// The table of `node`, or of the first node if `node` does not exist. The first call makes the tables.
    #[cold]
    pub fn on_or_make(&self, node: u32) -> Table {
        if self.by_node.get_or_make(|| self.make_by_node()).is_err() {
            // The small table is in use for good, also if there is memory later.
            self.by_node.give_up();
        }
        self.on(node).unwrap_or(self.small)
    }

    fn make_by_node(&self) -> Result<ByNode, Error> {
        let count = self.source.nodes.topology().nodes();
        let mut slots_log2 = self.size().log2(count)?;
        loop {
            match ByNode::new(&self.source, count, slots_log2) {
                Err(Error::NoMemory) if slots_log2 > MIN_SLOTS_LOG2 && self.source.nodes.are_the_hosts() => {
                    slots_log2 -= 1
                }
                result => return result,
            }
        }
    }

    /// As `on_or_make`. `None` if no table has been needed yet: then no waiter is queued in any.
    pub fn on(&self, node: u32) -> Option<Table> {
        match self.by_node.get() {
            Some(by_node) => by_node.on(node).or_else(|| by_node.on(self.first())),
            None => self.by_node.has_given_up().then_some(self.small),
        }
    }

    /// All tables that may have waiters.
    pub fn tables(&self) -> impl Iterator<Item = Table> {
        let several = self.by_node.get().map(|by_node| by_node.tables.iter().copied().flatten());
        let small = self.by_node.has_given_up().then_some(self.small);
        several.into_iter().flatten().chain(small)
    }

    /// `hash` with its low bits changed to name a table: that of `node`, or, without a node, one that the bits themselves pick.
    /// As in the kernel, the choice is not quite even if the number of nodes is no power of two or numbers are left out.
    // Not inlined: so on a machine with one node a shared key costs one comparison more.
    #[inline(never)]
    pub fn place(&self, hash: u32, node: Option<u32>) -> u32 {
        let count = self.count() as u32;
        let node = node.filter(|&node| self.has_node(node)).unwrap_or_else(|| {
            let picked = ((hash & NODE) * count) >> NODE_BITS;
            (picked..count).find(|&node| self.has_node(node)).unwrap_or_else(|| self.first())
        });
        (hash & !NODE) | node
    }

    pub fn node_of(hash: u32) -> u32 {
        hash & NODE
    }
}

impl Drop for Globals {
    fn drop(&mut self) {
        // SAFETY: made in this memory, and no thread uses the tables any more.
        unsafe { free(self.small, &OneNode) };
    }
}

struct ByNode {
    /// `None` means that the machine has no node with that number.
    tables: Vec<Option<Table>>,
    nodes: Nodes,
}

impl ByNode {
    fn new(source: &Source, count: usize, slots_log2: u32) -> Result<Self, Error> {
        let mut this = Self { tables: Vec::new(), nodes: source.nodes.clone() };
        this.tables.try_reserve_exact(count).map_err(|_| Error::NoMemory)?;
        for node in 0..count as u32 {
            // Pushed one by one: if a table cannot be made, dropping `this` frees those before it.
            this.tables.push(None);
            if this.nodes.topology().has_node(node) {
                let table = make(slots_log2, source.on, this.nodes.memory(), node).ok_or(Error::NoMemory)?;
                make_all_live(table);
                this.tables[node as usize] = Some(table);
            }
        }
        if this.tables.iter().any(Option::is_some) { Ok(this) } else { Err(Error::Invalid) }
    }

    fn on(&self, node: u32) -> Option<Table> {
        self.tables.get(node as usize).copied().flatten()
    }
}

impl Drop for ByNode {
    fn drop(&mut self) {
        for table in self.tables.drain(..).flatten() {
            // SAFETY: made in this memory, and no thread uses the tables any more.
            unsafe { free(table, self.nodes.memory()) };
        }
    }
}
