//! Words with a node: `FUTEX2_NUMA` and `FUTEX2_MPOL`.
//!
//! Such a word is looked up in the global table of its node, even a private one. Shared, it has the key that it has
//! without a node, so it meets operations that name none where their hash picks that node: always on a machine with one.
//! Private, it meets only those that name the node, too; the kernel has them meet the others when the process uses the
//! global hash.

use super::domain::Domain;
use super::key::Target;
use super::system::System;
use crate::error::Error;
use crate::sys::mem::{Access, Fault, Faults, Scope, UserMemory, Width};
use crate::table::layout::Layout;
use crate::table::refs::Scheme;

/// `FUTEX_NO_NODE`: whatever node is near.
const NO_NODE: u32 = u32::MAX;

/// A word that is looked up on a node. Operations on the same word on different nodes do not meet.
///
/// [`System::on_node`] makes it.
#[derive(Clone, Copy, Debug)]
pub struct OnNode<T> {
    target: T,
    node: Option<u32>,
}

impl<T: Target> Target for OnNode<T> {
    type Value = T::Value;

    fn address(&self) -> u64 {
        self.target.address()
    }
    fn scope(&self) -> Scope {
        self.target.scope()
    }
    fn node(&self) -> Option<u32> {
        self.node
    }
    fn width(&self) -> Width {
        self.target.width()
    }
    fn load(&self) -> Result<T::Value, Fault> {
        self.target.load()
    }
    fn compare_exchange(&self, current: T::Value, new: T::Value) -> Result<Result<T::Value, T::Value>, Fault> {
        self.target.compare_exchange(current, new)
    }
    fn fault_in(&self, access: Access) -> Result<(), Fault> {
        self.target.fault_in(access)
    }
    fn can_hold(&self, value: T::Value) -> bool {
        self.target.can_hold(value)
    }
}

/// Where an operation of futex2 gets a word's node from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NodeFlags {
    /// `FUTEX2_NUMA`: from the 32 bits behind the word.
    pub numa: bool,
    /// `FUTEX2_MPOL`: from the memory policy of its address, unless those 32 bits say one.
    pub mpol: bool,
}

impl<L: Layout> System<L> {
    /// `target` as a word that is looked up on `node`, by the domains of this system.
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
    /// [`Error::Invalid`] where there is no such node.
    pub fn on_node<T: Target>(&self, target: T, node: u32) -> Result<OnNode<T>, Error> {
        if self.has_node(node) { Ok(OnNode { target, node: Some(node) }) } else { Err(Error::Invalid) }
    }

    /// The node of the 32-bit word at `address`, as futex2 finds it, and whether the address will do at all. The 32 bits
    /// behind the word are written where `flags` say that they are the node, and they say -1.
    ///
    /// # Errors
    /// In the kernel's order: [`Error::Invalid`] for an address that is no multiple of the size, 8 bytes with a node and
    /// 4 without; [`Error::Fault`] for one that the guest may not name, or when the node cannot be read;
    /// [`Error::Invalid`] where there is no such node; [`Error::Fault`] when it cannot be written.
    pub fn resolve_node<M: UserMemory + ?Sized>(
        &self,
        memory: &M,
        address: u64,
        flags: NodeFlags,
    ) -> Result<Option<u32>, Error> {
        resolve(self, memory, address, flags)
    }
}

impl<S: Scheme<L>, L: Layout> Domain<S, L> {
    /// See [`System::resolve_node`].
    pub(crate) fn resolve_node<M: UserMemory + ?Sized>(
        &self,
        memory: &M,
        address: u64,
        flags: NodeFlags,
    ) -> Result<Option<u32>, Error> {
        resolve(&self.system, memory, address, flags)
    }
}

fn resolve<L: Layout, M: UserMemory + ?Sized>(
    system: &System<L>,
    memory: &M,
    address: u64,
    NodeFlags { numa, mpol }: NodeFlags,
) -> Result<Option<u32>, Error> {
    let size = Width::U32.bytes() << u32::from(numa);
    if !address.is_multiple_of(size) {
        return Err(Error::Invalid);
    }
    if !memory.access_ok(address, size) {
        return Err(Error::Fault);
    }
    let by_policy = || if mpol { memory.policy_node(address).filter(|&node| system.has_node(node)) } else { None };
    if !numa {
        return Ok(by_policy());
    }
    let node =
        node_behind(memory, address + Width::U32.bytes(), || by_policy().unwrap_or_else(|| system.current_node()))?;
    if system.has_node(node) { Ok(Some(node)) } else { Err(Error::Invalid) }
}

/// What the word at `address` says. If that is -1, it says what `choose` does from now on.
///
/// The kernel writes without a look at what somebody else may have written meanwhile. Here the first one decides, so that
/// all who find -1 meet.
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
                    // The memory's compare-and-swap fails for no reason: not for ever.
                    Ok(Err(_)) => Access::Read,
                    Err(Fault) => Access::Write,
                }
            }
            Err(Fault) => Access::Read,
        };
        faults.resolve(|| memory.fault_in(address, access))?;
    }
}
