//! Linear memories, which runtimes implement, and their words.

use core::marker::PhantomData;

use crate::futex::key::{Key, Target, WordValue};
use crate::sys::mem::{Access, Fault, ObjectId, Scope};

/// A linear memory. A runtime implements this trait.
///
/// [`load32`](Self::load32) and [`load64`](Self::load64) are called with a bucket locked. They must not block, nor use a
/// [`Domain`](crate::Domain) or a [`System`](crate::System).
pub trait LinearMemory {
    /// The current length of the memory in bytes. The memory may grow at any time, and never shrinks.
    fn bytes(&self) -> u64;

    /// Reads the four bytes at `address` as `i32.atomic.load` does: in one piece, little-endian, sequentially
    /// consistent. `address` is aligned, and in bounds by the length that [`bytes`](Self::bytes) has returned.
    ///
    /// # Errors
    /// [`Fault`] if the word cannot be reached at the moment, because the memory is being moved.
    fn load32(&self, address: u64) -> Result<u32, Fault>;

    /// As [`load32`](Self::load32), for eight bytes: `i64.atomic.load`.
    ///
    /// # Errors
    /// [`Fault`].
    fn load64(&self, address: u64) -> Result<u64, Fault>;

    /// Whether the memory was declared `shared`. Otherwise nothing can wait in it.
    #[inline(always)]
    fn is_shared(&self) -> bool {
        true
    }

    /// The number of this memory in its system. The default is `None`: the memory has one domain, in which nothing else waits.
    #[inline(always)]
    fn id(&self) -> Option<ObjectId> {
        None
    }

    /// Blocks until `address` can be read. Called after a [`Fault`], with no lock held, at most a thousand times in a wait. The
    /// default suits memories that are never moved.
    ///
    /// # Errors
    /// [`Fault`] if `address` can never be read: the wait then ends with [`Trap::Refused`](super::Trap::Refused).
    fn fault_in(&self, address: u64) -> Result<(), Fault> {
        let _ = address;
        Err(Fault)
    }
}

/// A word that is in bounds. Its key is the address alone: a notify wakes waits of either width.
pub(super) struct MemoryWord<'a, M: ?Sized, V> {
    memory: &'a M,
    address: u64,
    value: PhantomData<V>,
}

impl<'a, M: ?Sized, V> MemoryWord<'a, M, V> {
    #[inline(always)]
    pub(super) fn new(memory: &'a M, address: u64) -> Self {
        Self { memory, address, value: PhantomData }
    }
}

impl<M: LinearMemory + ?Sized, V: WordValue> Key for MemoryWord<'_, M, V> {
    #[inline(always)]
    fn address(&self) -> u64 {
        self.address
    }
    #[inline(always)]
    fn scope(&self) -> Scope {
        self.memory.id().map_or(Scope::Private, |id| Scope::Object { id, offset: self.address })
    }
}

impl<M: LinearMemory + ?Sized, V: WordValue> Target for MemoryWord<'_, M, V> {
    type Value = V;

    #[inline(always)]
    fn load(&self) -> Result<V, Fault> {
        let value = match size_of::<V>() {
            4 => self.memory.load32(self.address)?.into(),
            _ => self.memory.load64(self.address)?,
        };
        V::from_bits(value).ok_or(Fault)
    }
    fn fault_in(&self, _access: Access) -> Result<(), Fault> {
        self.memory.fault_in(self.address)
    }
}
