//! A guest's word as a system call names it.

use super::key::{Guest, Target};
use crate::error::Error;
use crate::sys::mem::{Access, Fault, Scope, UserMemory, Width};

/// The word at an address, and whose it is.
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
    /// The word of 32 bits at `address`, for operations of one process.
    ///
    /// # Errors
    /// [`Error::Invalid`] when it is misaligned, [`Error::Fault`] when a program may not name it.
    pub fn private(memory: &'m M, address: u64) -> Result<Self, Error> {
        Ok(Self { guest: Self::checked(memory, address)?, scope: Scope::Private, node: None })
    }

    /// The same for operations that others may share, for `access`.
    ///
    /// # Errors
    /// As for `private`, and [`Error::Fault`] when the memory is not there or does not allow it.
    pub fn shared(memory: &'m M, address: u64, access: Access) -> Result<Self, Error> {
        let guest = Self::checked(memory, address)?;
        let scope = match memory.scope(address, access)? {
            // Nobody else maps it; but an operation that does not say so itself is apart from those that do.
            Scope::Private => Scope::AddressSpace,
            scope => scope,
        };
        Ok(Self { guest, scope, node: None })
    }

    /// The same on `node`, as `Domain::resolve_node` found it.
    pub fn on_node(self, node: Option<u32>) -> Self {
        Self { node, ..self }
    }

    fn checked(memory: &'m M, address: u64) -> Result<Guest<'m, M>, Error> {
        let guest = Guest::new(memory, address, Width::U32)?;
        if memory.access_ok(address, 4) { Ok(guest) } else { Err(Error::Fault) }
    }
}

impl<M: UserMemory + ?Sized> Target for Word<'_, M> {
    type Value = u64;

    fn address(&self) -> u64 {
        self.guest.address()
    }
    fn scope(&self) -> Scope {
        self.scope
    }
    fn node(&self) -> Option<u32> {
        self.node
    }
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
