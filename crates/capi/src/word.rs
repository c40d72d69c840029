//! A futex word as a program names it in a call: address, flags, and the memory that it lies in.

use engine::{Access, Fault, Key, NodeFlags, Scope, Target, UserMemory, Width};

use crate::errno::Errno;
use crate::objects::DomainObject;
use crate::platform::Memory;
use crate::types::{
    UFUTEX_MPOL, UFUTEX_NODE_SHIFT, UFUTEX_NUMA, UFUTEX_SHARED, UFUTEX_U8, UFUTEX_U16, UFUTEX_U32, UFUTEX_U64,
};

/// A word of any width, in any memory.
#[derive(Clone, Copy)]
pub(crate) struct Word<'m> {
    memory: &'m Memory,
    address: u64,
    width: Width,
    scope: Scope,
    /// The node that the word is looked up on. `None` means that no node was named.
    node: Option<u32>,
}

/// The flags that say where a word's node comes from.
const NODE_FLAGS: u32 = UFUTEX_NUMA | UFUTEX_MPOL | NODE_MASK;
/// One more than the number of a node, or 0 for none: `UFUTEX_ON_NODE`.
const NODE_MASK: u32 = 0x7ff << UFUTEX_NODE_SHIFT;

/// Whether there can be a private word at `address` in the program's own memory, and that is the domain's. Most words are such
/// words, so they have a fast path. `false` also for a word that will be refused.
#[inline(always)]
pub(crate) fn is_own(domain: &DomainObject, address: u64, flags: u32) -> bool {
    const { assert!(UFUTEX_U8 == 1 && UFUTEX_U16 == 2 && UFUTEX_U32 == 4 && UFUTEX_U64 == 8) };
    // So the flag of a width is the number of its bytes.
    let is_width = flags.is_power_of_two() && flags <= UFUTEX_U64;
    domain.is_plain && is_width && address.is_multiple_of(flags.into()) && Memory::OWN.may_have(address, flags.into())
}

impl<'m> Word<'m> {
    /// The word at `address`. If `flags` contain `UFUTEX_SHARED`, the domain's memory says which domains share it.
    ///
    /// # Errors
    /// [`Errno::INVALID`] for unknown flags, for a misaligned address, and for a node that does not exist.
    /// [`Errno::FAULT`] for an address that no program has, for a node that cannot be read or written, or if the memory
    /// cannot say which domains share the word.
    pub fn new(domain: &'m DomainObject, address: u64, flags: u32, access: Access) -> Result<Self, Errno> {
        let word = Self::without_node(domain, address, flags & !NODE_FLAGS, access);
        if flags & NODE_FLAGS == 0 {
            return word;
        }
        Ok(Self { node: node(domain, address, flags)?, ..word? })
    }

    /// As [`new`](Self::new), for operations whose words have no node: a flag that names one is unknown.
    pub fn without_node(domain: &'m DomainObject, address: u64, flags: u32, access: Access) -> Result<Self, Errno> {
        let memory = &domain.memory;
        let width = match flags & !UFUTEX_SHARED {
            UFUTEX_U8 => Width::U8,
            UFUTEX_U16 => Width::U16,
            UFUTEX_U32 => Width::U32,
            UFUTEX_U64 => Width::U64,
            _ => return Err(Errno::INVALID),
        };
        if !address.is_multiple_of(width.bytes()) {
            return Err(Errno::INVALID);
        }
        if !memory.may_have(address, width.bytes()) {
            return Err(Errno::FAULT);
        }
        let scope = if flags & UFUTEX_SHARED == 0 { Scope::Private } else { memory.scope(address, access)? };
        Ok(Self { memory, address, width, scope, node: None })
    }
}

/// The node of the word at `address`, whose flags name one. `None` if the memory has no policy for the address.
#[cold]
fn node(domain: &DomainObject, address: u64, flags: u32) -> Result<Option<u32>, Errno> {
    let by_number = ((flags & NODE_MASK) >> UFUTEX_NODE_SHIFT).checked_sub(1);
    let said = NodeFlags { numa: flags & UFUTEX_NUMA != 0, mpol: flags & UFUTEX_MPOL != 0 };
    match by_number {
        Some(_) if said != NodeFlags::default() => Err(Errno::INVALID),
        Some(node) if domain.system.has_node(node) => Ok(Some(node)),
        Some(_) => Err(Errno::INVALID),
        None if flags & !(NODE_FLAGS | UFUTEX_SHARED) != UFUTEX_U32 => Err(Errno::INVALID),
        None => Ok(domain.system.resolve_node(&domain.memory, address, said)?),
    }
}

impl Key for Word<'_> {
    fn address(&self) -> u64 {
        self.address
    }
    fn scope(&self) -> Scope {
        self.scope
    }
    fn node(&self) -> Option<u32> {
        self.node
    }
}

impl Target for Word<'_> {
    type Value = u64;

    fn width(&self) -> Width {
        self.width
    }
    fn load(&self) -> Result<u64, Fault> {
        self.memory.load(self.address, self.width)
    }
    fn compare_exchange(&self, current: u64, new: u64) -> Result<Result<u64, u64>, Fault> {
        self.memory.compare_exchange(self.address, self.width, current, new)
    }
    fn fault_in(&self, access: Access) -> Result<(), Fault> {
        self.memory.fault_in(self.address, access)
    }
    fn can_hold(&self, value: u64) -> bool {
        value <= self.width.max()
    }
}
