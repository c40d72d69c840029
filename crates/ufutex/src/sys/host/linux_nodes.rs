//! The nodes of the machine that the program runs on, as Linux lists them.

use core::alloc::Layout;
use core::ptr::null_mut;
use std::fs::File;
use std::io::Read;
use std::sync::OnceLock;

use super::super::topology::{MAX_NODES, NodeMemory, OneNode, Topology};

/// The machine that this program runs on.
#[derive(Debug)]
pub struct HostTopology {
    possible: [u64; MAX_NODES / 64],
    /// One more than the number of the last node.
    nodes: usize,
}

impl HostTopology {
    /// This machine's topology, read once. If Linux does not list nodes, there is one node.
    pub fn get() -> &'static Self {
        static HOST: OnceLock<HostTopology> = OnceLock::new();
        if let Some(host) = HOST.get() {
            return host;
        }
        // Outside of the lock: a thread of a process that forks now would keep the child waiting for ever.
        let host = Self::read().unwrap_or(Self { possible: set_of(0), nodes: 1 });
        HOST.get_or_init(|| host)
    }

    /// Allocates nothing, because making a system must be able to fail for lack of memory.
    fn read() -> Option<Self> {
        if cfg!(miri) {
            return None;
        }
        let mut text = [0; 4096];
        let length = File::open("/sys/devices/system/node/possible").ok()?.read(&mut text).ok()?;
        Self::parse(core::str::from_utf8(&text[..length]).ok()?)
    }

    /// Parses Linux's format, in ascending order: `0-1,4`.
    fn parse(list: &str) -> Option<Self> {
        let mut this = Self { possible: [0; MAX_NODES / 64], nodes: 0 };
        for range in list.trim_end().split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            for node in first.parse::<usize>().ok()?..=last.parse().ok()? {
                *this.possible.get_mut(node / 64)? |= 1 << (node % 64);
                this.nodes = node + 1;
            }
        }
        (this.nodes != 0).then_some(this)
    }
}

impl Topology for HostTopology {
    fn nodes(&self) -> usize {
        self.nodes
    }

    fn has_node(&self, node: u32) -> bool {
        self.possible.get(node as usize / 64).is_some_and(|bits| bits >> (node % 64) & 1 != 0)
    }

    fn current_node(&self) -> u32 {
        if self.nodes == 1 { 0 } else { node_of_this_cpu() }
    }

    fn memory(&self) -> &'static dyn NodeMemory {
        if self.nodes == 1 { &OneNode } else { &HostMemory }
    }
}

fn node_of_this_cpu() -> u32 {
    let mut node = 0u32;
    // SAFETY: getcpu(2) writes one word to each pointer that is not null.
    let result = unsafe { libc::syscall(libc::SYS_getcpu, null_mut::<u32>(), &raw mut node, null_mut::<u32>()) };
    if result == 0 { node } else { 0 }
}

/// As bits. Empty if `node` is not below [`MAX_NODES`].
fn set_of(node: u32) -> [u64; MAX_NODES / 64] {
    core::array::from_fn(|word| if word == node as usize / 64 { 1 << (node % 64) } else { 0 })
}

struct HostMemory;

/// The least size of a mapping, and the alignment of each. Smaller pieces come from the global allocator: on the node of the
/// thread that touches them first, which is the maker of a small table.
const PAGE: usize = 4096;

const MPOL_PREFERRED: libc::c_long = 1;

fn is_mapped(layout: Layout) -> bool {
    layout.size() >= PAGE && layout.align() <= PAGE
}

// SAFETY: `allocate` returns a mapping of its own, or the global allocator's memory.
unsafe impl NodeMemory for HostMemory {
    fn allocate(&self, layout: Layout, node: u32) -> *mut u8 {
        if !is_mapped(layout) {
            return OneNode.allocate(layout, node);
        }
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let memory = unsafe { libc::mmap(null_mut(), layout.size(), access, flags, -1, 0) };
        if memory == libc::MAP_FAILED {
            return null_mut();
        }
        prefer(memory, layout.size(), node);
        memory.cast()
    }

    unsafe fn free(&self, memory: *mut u8, layout: Layout) {
        if is_mapped(layout) {
            // SAFETY: the caller guarantees a mapping of that size which is no longer used.
            unsafe { libc::munmap(memory.cast(), layout.size()) };
        } else {
            // SAFETY: the caller guarantees it.
            unsafe { OneNode.free(memory, layout) }
        }
    }
}

/// Makes the kernel prefer `node` for `memory`. If it refuses, a page lies on the node of the thread that touches it first.
fn prefer(memory: *mut libc::c_void, bytes: usize, node: u32) -> bool {
    let nodes = set_of(node);
    let bits = MAX_NODES + 1; // the kernel uses one bit less than this number
    // SAFETY: mbind(2) reads the set, and changes no contents.
    let call = || unsafe { libc::syscall(libc::SYS_mbind, memory, bytes, MPOL_PREFERRED, nodes.as_ptr(), bits, 0) };
    (node as usize) < MAX_NODES && call() == 0
}

#[cfg(test)]
#[path = "../../../tests/common/skipped.rs"]
mod skipped;

#[cfg(test)]
mod tests {
    use super::skipped::skip;
    use super::*;
    use std::vec::Vec;

    fn nodes(list: &str) -> Option<Vec<u32>> {
        let host = HostTopology::parse(list)?;
        let nodes: Vec<u32> = (0..2 * MAX_NODES as u32).filter(|&node| host.has_node(node)).collect();
        assert_eq!(host.nodes(), *nodes.last().expect("a list is not empty") as usize + 1);
        Some(nodes)
    }

    #[test]
    fn lists_of_nodes_are_read_as_linux_writes_them() {
        assert_eq!(nodes("0\n"), Some(Vec::from([0])));
        assert_eq!(nodes("0-3\n"), Some(Vec::from([0, 1, 2, 3])));
        assert_eq!(nodes("0,8,62-65\n"), Some(Vec::from([0, 8, 62, 63, 64, 65])));
        assert_eq!(nodes("1023"), Some(Vec::from([1023])));
        for unreadable in ["", "\n", "x", "0-", "1024", "0-1024", "3-1", "0,,1"] {
            assert_eq!(nodes(unreadable), None, "{unreadable:?}");
        }
    }

    #[test]
    fn host_has_the_node_that_we_run_on() {
        let host = HostTopology::get();
        assert!((1..=MAX_NODES).contains(&host.nodes()));
        assert!(host.has_node(host.current_node()));
        assert!(host.has_node(node_of_this_cpu()));
        assert!(!host.has_node(host.nodes() as u32));
    }

    #[test]
    fn topology_without_some_numbers_has_the_others() {
        let topology = HostTopology::parse("0,2").expect("a list");
        assert_eq!(topology.nodes(), 3);
        assert_eq!([0, 1, 2, 3].map(|node| topology.has_node(node)), [true, false, true, false]);
    }

    #[cfg(not(miri))]
    fn policy(memory: *mut u8, node: u32) -> Option<(i32, bool)> {
        const MPOL_F_ADDR: libc::c_long = 2;
        let (mut mode, mut nodes) = (-1i32, [0u64; MAX_NODES / 64]);
        // SAFETY: get_mempolicy(2) writes the mode and the given number of bits.
        let result = unsafe {
            libc::syscall(
                libc::SYS_get_mempolicy,
                &raw mut mode,
                nodes.as_mut_ptr(),
                MAX_NODES + 1,
                memory,
                MPOL_F_ADDR,
            )
        };
        (result == 0).then(|| (mode, nodes == set_of(node)))
    }

    #[test]
    #[cfg(not(miri))]
    fn host_memory_is_zeroed_and_prefers_its_node_if_there_is_one() {
        let layout = Layout::from_size_align(1 << 20, 64).expect("a layout");
        let here = node_of_this_cpu();
        let probe = HostMemory.allocate(layout, here);
        let has_policies = prefer(probe.cast(), layout.size(), here);
        // SAFETY: allocated with this layout.
        unsafe { HostMemory.free(probe, layout) };
        for node in [here, MAX_NODES as u32 - 1, u32::MAX] {
            let memory = HostMemory.allocate(layout, node);
            assert!(!memory.is_null());
            // SAFETY: that many bytes, which no other code uses.
            let bytes = unsafe { core::slice::from_raw_parts_mut(memory, layout.size()) };
            assert!(bytes.iter().all(|&byte| byte == 0));
            bytes.fill(1);
            match policy(memory, node) {
                Some(policy) if node == here && has_policies => assert_eq!(policy, (MPOL_PREFERRED as i32, true)),
                Some((mode, _)) if node != here => assert_eq!(mode, 0, "there is no node {node}, and so no policy"),
                _ => skip("memory policies are not to be had here"),
            }
            // SAFETY: allocated with this layout; `bytes` is not used any more.
            unsafe { HostMemory.free(memory, layout) };
        }
    }

    #[test]
    #[cfg(not(miri))]
    fn small_pieces_and_unusual_alignments_come_from_the_allocator() {
        for (size, align) in [(64, 64), (PAGE - 64, 64), (1 << 16, 1 << 16)] {
            let layout = Layout::from_size_align(size, align).expect("a layout");
            let memory = HostMemory.allocate(layout, 0);
            assert!(!memory.is_null() && memory.addr().is_multiple_of(align));
            // SAFETY: allocated with this layout.
            unsafe { HostMemory.free(memory, layout) };
        }
    }

    #[test]
    #[cfg(all(target_pointer_width = "64", not(miri)))] // half of a 32-bit address space can be had
    fn memory_that_cannot_be_had_is_null() {
        let layout = Layout::from_size_align(1 << 60, 64).expect("a layout");
        assert!(HostMemory.allocate(layout, 0).is_null());
    }
}
