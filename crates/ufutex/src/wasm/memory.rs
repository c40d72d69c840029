//! A linear memory as a runtime gives it to the engine, and a word of it.

use core::marker::PhantomData;

use crate::futex::key::Target;
use crate::sys::mem::{Access, Fault, ObjectId, Scope, Width};

/// A linear memory: what a runtime writes.
///
/// [`load32`](Self::load32) and [`load64`](Self::load64) are called with a bucket locked: they must not block, and must
/// use neither a [`Domain`](crate::Domain) nor a [`System`](crate::System).
pub trait LinearMemory {
    /// How long it is now, in bytes. It may grow at any time, and never shrinks.
    fn bytes(&self) -> u64;

    /// What the four bytes at `address` hold, as `i32.atomic.load` sees them: in one piece, little-endian, sequentially
    /// consistent. `address` is aligned, and is in bounds as [`bytes`](Self::bytes) had them.
    ///
    /// # Errors
    /// [`Fault`] when the word cannot be reached just now, since the memory is being moved.
    fn load32(&self, address: u64) -> Result<u32, Fault>;

    /// As [`load32`](Self::load32), of eight bytes: `i64.atomic.load`.
    ///
    /// # Errors
    /// As for `load32`.
    fn load64(&self, address: u64) -> Result<u64, Fault>;

    /// Whether it was declared `shared`. Nobody waits in one that was not.
    #[inline(always)]
    fn is_shared(&self) -> bool {
        true
    }

    /// The number of this memory in its system: for one that has not a domain of its own, or has several. As given here
    /// it has none, and nothing else waits in its domain.
    #[inline(always)]
    fn id(&self) -> Option<ObjectId> {
        None
    }

    /// Blocks until `address` can be read; called without any lock held, after a [`Fault`]. A wait tries again a thousand
    /// times at most.
    ///
    /// # Errors
    /// [`Fault`] when it never will be: the wait ends with [`Trap::Refused`](super::Trap::Refused). As given here always,
    /// for memories that are never moved.
    fn fault_in(&self, address: u64) -> Result<(), Fault> {
        let _ = address;
        Err(Fault)
    }
}

/// What a wait compares: `u32` or `u64`.
pub trait Value: Copy + PartialEq + Into<u64> + TryFrom<u64> + sealed::Loaded {}

impl Value for u32 {}
impl Value for u64 {}

mod sealed {
    use super::{Fault, LinearMemory, Width};

    pub trait Loaded: Sized {
        const WIDTH: Width;

        fn load<M: LinearMemory + ?Sized>(memory: &M, address: u64) -> Result<Self, Fault>;
    }

    impl Loaded for u32 {
        const WIDTH: Width = Width::U32;

        #[inline(always)]
        fn load<M: LinearMemory + ?Sized>(memory: &M, address: u64) -> Result<Self, Fault> {
            memory.load32(address)
        }
    }

    impl Loaded for u64 {
        const WIDTH: Width = Width::U64;

        #[inline(always)]
        fn load<M: LinearMemory + ?Sized>(memory: &M, address: u64) -> Result<Self, Fault> {
            memory.load64(address)
        }
    }
}

/// A word that is in bounds. Its key is the address alone: a notify wakes waits of either width.
pub(super) struct Word<'a, M: ?Sized, V> {
    memory: &'a M,
    address: u64,
    value: PhantomData<V>,
}

impl<'a, M: ?Sized, V> Word<'a, M, V> {
    #[inline(always)]
    pub(super) fn new(memory: &'a M, address: u64) -> Self {
        Self { memory, address, value: PhantomData }
    }
}

impl<M: LinearMemory + ?Sized, V: Value> Target for Word<'_, M, V> {
    type Value = V;

    #[inline(always)]
    fn address(&self) -> u64 {
        self.address
    }
    #[inline(always)]
    fn scope(&self) -> Scope {
        self.memory.id().map_or(Scope::Private, |id| Scope::Object { id, offset: self.address })
    }
    #[inline(always)]
    fn load(&self) -> Result<V, Fault> {
        V::load(self.memory, self.address)
    }
    /// No instruction here writes.
    fn compare_exchange(&self, _current: V, _new: V) -> Result<Result<V, V>, Fault> {
        Err(Fault)
    }
    fn fault_in(&self, _access: Access) -> Result<(), Fault> {
        self.memory.fault_in(self.address)
    }
}
