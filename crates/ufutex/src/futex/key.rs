//! What is waited on: a word, and whose word it is.

use crate::error::Error;
use crate::sync::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};
use crate::sys::mem::{Access, Fault, UserMemory, Width};

/// Who shares a futex word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// The threads of one domain: futex(2) with `FUTEX_PRIVATE_FLAG`. Looked up in the domain's own table.
    Private,
    /// Whoever maps the object, each at an address of its own; the word lies at an offset in it.
    Object {
        /// Which object: a file or a piece of shared memory.
        id: ObjectId,
        /// Where in it, in bytes.
        offset: u64,
    },
    /// The threads of one domain, by an operation without `FUTEX_PRIVATE_FLAG` on memory that nobody else maps. As in
    /// the kernel, it does not meet private operations on the same address.
    AddressSpace,
}

/// The number of a shared object, as the embedder gives them out: an inode's, for example. Below 2^61.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ObjectId(u64);

impl ObjectId {
    /// The object `id`; `None` from 2^61 on.
    #[must_use]
    pub const fn new(id: u64) -> Option<Self> {
        if id < 1 << 61 { Some(Self(id)) } else { None }
    }
}

/// A futex word that operations can be aimed at.
///
/// Implemented for references to atomics of 8, 16, 32 and 64 bits, for [`Guest`] memory, and for either as
/// [`Shared`].
pub trait Target {
    /// What the word holds.
    type Value: Copy + PartialEq;

    /// Where it is.
    fn address(&self) -> u64;

    /// Who shares it.
    #[inline(always)]
    fn scope(&self) -> Scope {
        Scope::Private
    }

    /// Reads it, with acquire ordering or stronger; never blocks.
    ///
    /// # Errors
    /// [`Fault`] when it cannot be read now.
    fn load(&self) -> Result<Self::Value, Fault>;

    /// Makes it readable; called without any lock held, after a [`Fault`].
    ///
    /// # Errors
    /// [`Fault`] when it cannot be read at all.
    fn fault_in(&self) -> Result<(), Fault>;

    /// Whether the word can hold `value` at all.
    #[inline(always)]
    fn can_hold(&self, value: Self::Value) -> bool {
        let _ = value;
        true
    }
}

macro_rules! native_target {
    ($($atomic:ty: $value:ty),*) => {$(
        impl Target for &$atomic {
            type Value = $value;

            #[inline(always)]
            fn address(&self) -> u64 {
                core::ptr::from_ref::<$atomic>(self).addr() as u64
            }
            #[inline(always)]
            fn load(&self) -> Result<$value, Fault> {
                Ok((**self).load(Ordering::Acquire)) // [M]
            }
            #[inline(always)]
            fn fault_in(&self) -> Result<(), Fault> {
                Ok(())
            }
        }
    )*};
}

native_target!(AtomicU8: u8, AtomicU16: u16, AtomicU32: u32, AtomicU64: u64);

/// A word in a guest's memory.
#[derive(Debug)]
pub struct Guest<'m, M: ?Sized> {
    memory: &'m M,
    address: u64,
    width: Width,
}

impl<M: ?Sized> Clone for Guest<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<M: ?Sized> Copy for Guest<'_, M> {}

impl<'m, M: UserMemory + ?Sized> Guest<'m, M> {
    /// The word of `width` at `address` of `memory`. The address is not touched before a wait compares the word; a
    /// wake never touches it.
    ///
    /// # Errors
    /// [`Error::Invalid`] when `address` is not a multiple of the width.
    pub fn new(memory: &'m M, address: u64, width: Width) -> Result<Self, Error> {
        if address.is_multiple_of(width.bytes()) { Ok(Self { memory, address, width }) } else { Err(Error::Invalid) }
    }
}

impl<M: UserMemory + ?Sized> Target for Guest<'_, M> {
    type Value = u64;

    fn address(&self) -> u64 {
        self.address
    }
    fn load(&self) -> Result<u64, Fault> {
        self.memory.load(self.address, self.width)
    }
    fn fault_in(&self) -> Result<(), Fault> {
        self.memory.fault_in(self.address, Access::Read)
    }
    fn can_hold(&self, value: u64) -> bool {
        value <= self.width.max()
    }
}

/// A word that is shared beyond its domain, or as if it were.
#[derive(Clone, Copy, Debug)]
pub struct Shared<T> {
    target: T,
    scope: Scope,
}

impl<T: Target> Shared<T> {
    /// `target`, which lies at `offset` in the object `id`.
    pub fn object(target: T, id: ObjectId, offset: u64) -> Self {
        Self { target, scope: Scope::Object { id, offset } }
    }

    /// `target`, by an operation that does not say it is private: see [`Scope::AddressSpace`].
    pub fn address_space(target: T) -> Self {
        Self { target, scope: Scope::AddressSpace }
    }
}

impl<T: Target> Target for Shared<T> {
    type Value = T::Value;

    fn address(&self) -> u64 {
        self.target.address()
    }
    fn scope(&self) -> Scope {
        self.scope
    }
    fn load(&self) -> Result<T::Value, Fault> {
        self.target.load()
    }
    fn fault_in(&self) -> Result<(), Fault> {
        self.target.fault_in()
    }
    fn can_hold(&self, value: T::Value) -> bool {
        self.target.can_hold(value)
    }
}

// The two low bits of a key's space say what kind it is of.
const SPACE_OF_OBJECT: u64 = 2;
const SPACE_OF_SHARED_ADDRESSES: u64 = 1;

/// The space of the private keys of the domain with this number.
pub(crate) const fn private_space(domain: u64) -> u64 {
    domain << 2
}

/// The address of `target` in its space, and that space unless it is the private one of the domain.
#[inline(always)]
pub(crate) fn target_key<T: Target>(target: &T, private_space: u64) -> (u64, Option<u64>) {
    match target.scope() {
        Scope::Private => (target.address(), None),
        Scope::Object { id, offset } => (offset, Some(id.0 << 2 | SPACE_OF_OBJECT)),
        Scope::AddressSpace => (target.address(), Some(private_space | SPACE_OF_SHARED_ADDRESSES)),
    }
}
