//! A guest's word as a system call names it.

use super::key::{Guest, Key, Target};
use crate::error::Error;
use crate::sys::mem::{Access, Fault, Scope, UserMemory, Width};

/// The word at an address, with its scope and its node.
#[derive(Debug)]
pub(crate) struct Word<'m, M: ?Sized> {
    guest: Guest<'m, M>,
    scope: Scope,
    node: Option<u32>,
}

impl<M: ?Sized> Clone for Word<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<M: ?Sized> Copy for Word<'_, M> {}

impl<'m, M: UserMemory + ?Sized> Word<'m, M> {
    /// The 32-bit word at `address`, for a private operation.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the address is misaligned, [`Error::Fault`] if the guest may not name it.
    pub fn private(memory: &'m M, address: u64) -> Result<Self, Error> {
        Ok(Self { guest: Self::checked(memory, address)?, scope: Scope::Private, node: None })
    }

    /// The 32-bit word at `address`, for an operation that is not private and needs `access`.
    ///
    /// # Errors
    /// As for `private`, and [`Error::Fault`] if the memory does not exist or does not allow the access.
    pub fn shared(memory: &'m M, address: u64, access: Access) -> Result<Self, Error> {
        let guest = Self::checked(memory, address)?;
        Ok(Self { guest, scope: guest.shared(access)?.scope(), node: None })
    }

    /// The same word, looked up on `node`, which `Domain::resolve_node` has found.
    pub fn on_node(self, node: Option<u32>) -> Self {
        Self { node, ..self }
    }

    fn checked(memory: &'m M, address: u64) -> Result<Guest<'m, M>, Error> {
        let guest = Guest::new(memory, address, Width::U32)?;
        if memory.access_ok(address, 4) { Ok(guest) } else { Err(Error::Fault) }
    }
}

impl<M: UserMemory + ?Sized> Key for Word<'_, M> {
    fn address(&self) -> u64 {
        self.guest.address()
    }
    fn scope(&self) -> Scope {
        self.scope
    }
    fn node(&self) -> Option<u32> {
        self.node
    }
}

impl<M: UserMemory + ?Sized> Target for Word<'_, M> {
    type Value = u64;

    fn width(&self) -> Width {
        Width::U32
    }
    fn load(&self) -> Result<u64, Fault> {
        self.guest.load()
    }
    fn compare_exchange(&self, current: u64, new: u64) -> Result<Result<u64, u64>, Fault> {
        self.guest.compare_exchange(current, new)
    }
    fn fault_in(&self, access: Access) -> Result<(), Fault> {
        self.guest.fault_in(access)
    }
    fn can_hold(&self, value: u64) -> bool {
        self.guest.can_hold(value)
    }
}
