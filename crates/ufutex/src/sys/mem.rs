//! The memory that futex words live in.

/// Why a word could not be reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault;

/// What an access that faulted was meant to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Read the word.
    Read,
    /// Write it.
    Write,
}

/// The size of a futex word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Width {
    /// One byte.
    U8 = 1,
    /// Two bytes.
    U16 = 2,
    /// Four bytes: the only size that Linux knows.
    U32 = 4,
    /// Eight bytes, as WebAssembly's `memory.atomic.wait64` needs it.
    U64 = 8,
}

impl Width {
    /// The size in bytes, which is the alignment that an address must have.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self as u64
    }

    /// The greatest value that a word of this size holds.
    #[must_use]
    pub const fn max(self) -> u64 {
        u64::MAX >> (64 - 8 * self.bytes())
    }
}

/// A guest's memory, as an embedder gives it to the engine.
///
/// The engine reads a word while it holds a bucket's lock, so [`load`](Self::load) must not block: where the page is
/// not there it answers [`Fault`]. The engine then lets go of the lock, calls [`fault_in`](Self::fault_in), which may
/// block as long as it likes, and starts over.
///
/// ```
/// use core::sync::atomic::{AtomicU32, Ordering};
/// use ufutex::{Access, Fault, UserMemory, Width};
///
/// /// Four words at guest address 0x1000.
/// struct Guest([AtomicU32; 4]);
///
/// impl UserMemory for Guest {
///     fn load(&self, address: u64, width: Width) -> Result<u64, Fault> {
///         let index = address.checked_sub(0x1000).ok_or(Fault)? / 4;
///         let word = self.0.get(index as usize).ok_or(Fault)?;
///         (width == Width::U32).then(|| word.load(Ordering::Acquire).into()).ok_or(Fault)
///     }
///     fn fault_in(&self, _address: u64, _access: Access) -> Result<(), Fault> {
///         Err(Fault) // everything that exists is always there
///     }
/// }
///
/// let guest = Guest([const { AtomicU32::new(7) }; 4]);
/// assert_eq!(guest.load(0x1004, Width::U32), Ok(7));
/// assert_eq!(guest.load(0x2000, Width::U32), Err(Fault));
/// ```
pub trait UserMemory {
    /// Reads the word of `width` at `address` in one piece, with acquire ordering or stronger; never blocks.
    ///
    /// A bucket is locked meanwhile, so this must not use any [`Domain`](crate::Domain) either.
    ///
    /// # Errors
    /// [`Fault`] when it cannot be read now.
    fn load(&self, address: u64, width: Width) -> Result<u64, Fault>;

    /// Makes `address` accessible; called without any lock held, after a [`Fault`].
    ///
    /// `Ok` means that a `load` there will succeed, unless the memory goes away again: the engine tries until it does.
    ///
    /// # Errors
    /// [`Fault`] when the access is not allowed at all: the operation then ends with `EFAULT`.
    fn fault_in(&self, address: u64, access: Access) -> Result<(), Fault>;
}
