//! Words with a node: `FUTEX2_NUMA` and `FUTEX2_MPOL`.
//!
//! Such a word is looked up in the global table of its node, even if it is private, unless it is one of a
//! [`SharedObject`](super::objects::SharedObject). A shared word has the same key with a node and without: such operations meet
//! if the word's hash selects that node. For a private word, only those that name the same node meet. (In the kernel also those
//! that name none, if the process uses the global hash.)

use super::key::{At, Key};
use super::system::System;
use crate::error::Error;
use crate::sys::mem::{Access, Fault, Faults, UserMemory, Width, check_access};

/// `FUTEX_NO_NODE`: a near node is to be chosen.
const NO_NODE: u32 = u32::MAX;

/// Where an operation of futex2 gets a word's node from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NodeFlags {
    /// `FUTEX2_NUMA`: the node is in the 32 bits behind the word.
    pub numa: bool,
    /// `FUTEX2_MPOL`: the node comes from the memory policy of the word's address, unless the 32 bits behind the word name one.
    pub mpol: bool,
}

impl System {
    /// `target`, looked up on `node`, by the domains of this system. Operations on one word on different nodes do not meet.
    ///
    /// ```
    /// use std::sync::atomic::AtomicU32;
    /// use ufutex::{Domain, Error, System};
    ///
    /// let system = System::new();
    /// let domain = Domain::new(&system);
    /// let word = AtomicU32::new(0);
    /// let here = system.on_node(&word, system.current_node())?;
    /// assert_eq!(domain.wake(here, 1), 0);
    /// assert_eq!(system.on_node(&word, 5000).err(), Some(Error::Invalid));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is no such node.
    pub fn on_node<T: Key>(&self, target: T, node: u32) -> Result<At<T>, Error> {
        let scope = target.scope();
        if self.has_node(node) { Ok(At::new(target, scope).on_node(Some(node))) } else { Err(Error::Invalid) }
    }

    /// Checks `address` and finds the node of the 32-bit word there, as futex2 does. `None` if the word has no node. With
    /// [`NodeFlags::numa`], if the 32 bits behind the word are -1, the chosen node is stored there.
    ///
    /// # Errors
    /// In the kernel's order: [`Error::Invalid`] if the address is not a multiple of the size, which is 8 bytes with
    /// [`NodeFlags::numa`] and 4 without; [`Error::Fault`] if the guest may not name the address, or the node cannot be
    /// read; [`Error::Invalid`] if there is no such node; [`Error::Fault`] if the node cannot be written.
    pub fn resolve_node<M: UserMemory + ?Sized>(
        &self,
        memory: &M,
        address: u64,
        NodeFlags { numa, mpol }: NodeFlags,
    ) -> Result<Option<u32>, Error> {
        let size = Width::U32.bytes() << u32::from(numa);
        if !address.is_multiple_of(size) {
            return Err(Error::Invalid);
        }
        check_access(memory, address, size)?;
        let by_policy = || if mpol { memory.policy_node(address).filter(|&node| self.has_node(node)) } else { None };
        if !numa {
            return Ok(by_policy());
        }
        let choose = || by_policy().unwrap_or_else(|| self.current_node());
        let node = node_behind(memory, address + Width::U32.bytes(), choose)?;
        if self.has_node(node) { Ok(Some(node)) } else { Err(Error::Invalid) }
    }
}

/// The node in the word at `address`. If the word is -1, stores the node that `choose` returns there. Unlike in the kernel
/// the first store wins, so that all operations that find -1 use one node, and meet.
fn node_behind<M: UserMemory + ?Sized>(memory: &M, address: u64, choose: impl Fn() -> u32) -> Result<u32, Fault> {
    let mut faults = Faults::default();
    loop {
        let access = match memory.load(address, Width::U32) {
            Ok(value) if value as u32 != NO_NODE => return Ok(value as u32),
            Ok(_) => {
                let chosen = choose();
                match memory.compare_exchange(address, Width::U32, NO_NODE.into(), chosen.into()) {
                    Ok(Ok(_)) => return Ok(chosen),
                    Ok(Err(value)) if value as u32 != NO_NODE => return Ok(value as u32),
                    // A spurious failure of the memory's compare-and-swap. `faults` bounds the number of tries.
                    Ok(Err(_)) => Access::Read,
                    Err(Fault) => Access::Write,
                }
            }
            Err(Fault) => Access::Read,
        };
        faults.resolve(|| memory.fault_in(address, access))?;
    }
}
