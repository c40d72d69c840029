//! A word as a program names it in a call.

use engine::{Access, Fault, Key, Scope, Target, UserMemory, Width};

use crate::errno::Errno;
use crate::platform::Memory;
use crate::types::{UFUTEX_SHARED, UFUTEX_U8, UFUTEX_U16, UFUTEX_U32, UFUTEX_U64};

/// A word of any width, in any memory.
#[derive(Clone, Copy)]
pub(crate) struct Word<'m> {
    memory: &'m Memory,
    address: u64,
    width: Width,
    scope: Scope,
}

impl<'m> Word<'m> {
    /// The word at `address`. If `flags` contain `UFUTEX_SHARED`, `memory` says which domains share it.
    ///
    /// # Errors
    /// [`Errno::INVALID`] for unknown flags and for a misaligned address. [`Errno::FAULT`] for an address that no
    /// program has, or if the memory cannot say which domains share it.
    pub fn new(memory: &'m Memory, address: u64, flags: u32, access: Access) -> Result<Self, Errno> {
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
        if !memory.access_ok(address, width.bytes()) || (memory.is_native() && address < 4096) {
            return Err(Errno::FAULT);
        }
        let scope = if flags & UFUTEX_SHARED == 0 { Scope::Private } else { memory.scope(address, access)? };
        Ok(Self { memory, address, width, scope })
    }

    /// The private word of 32 bits that a system call names.
    ///
    /// # Errors
    /// As the kernel's: [`Errno::INVALID`] for a misaligned address, [`Errno::FAULT`] for one that the guest may not
    /// name. A wake at the address 0 finds nobody, and a wait faults when it reads the word.
    pub fn of_call(memory: &'m Memory, address: u64) -> Result<Self, Errno> {
        let width = Width::U32;
        if !address.is_multiple_of(width.bytes()) {
            return Err(Errno::INVALID);
        }
        if !memory.access_ok(address, width.bytes()) {
            return Err(Errno::FAULT);
        }
        Ok(Self { memory, address, width, scope: Scope::Private })
    }
}

impl Key for Word<'_> {
    fn address(&self) -> u64 {
        self.address
    }
    fn scope(&self) -> Scope {
        self.scope
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
