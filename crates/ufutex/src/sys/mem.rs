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

/// Which guests share a futex word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// The threads of one domain: futex(2) with `FUTEX_PRIVATE_FLAG`. Looked up in the domain's own table.
    Private,
    /// All that map the object, each at an address of its own; the word lies at an offset in it.
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
///
/// ```
/// use ufutex::ObjectId;
///
/// assert_eq!(ObjectId::new(7).map(ObjectId::get), Some(7));
/// assert_eq!(ObjectId::new(1 << 61), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ObjectId(u64);

impl ObjectId {
    /// The object `id`; `None` from 2^61 on.
    #[must_use]
    pub const fn new(id: u64) -> Option<Self> {
        if id < 1 << 61 { Some(Self(id)) } else { None }
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// A guest's memory, as an embedder gives it to the engine.
///
/// The engine looks at a word, and changes it, while it holds a bucket's lock, so [`load`](Self::load) and
/// [`compare_exchange`](Self::compare_exchange) must not block: where the page is not there they answer [`Fault`]. The
/// engine then lets go of the lock, calls [`fault_in`](Self::fault_in), which may block as long as it likes, and starts
/// over. Futex words are of 32 bits for a guest of Linux; system calls also read single bytes, and clear a pointer.
///
/// Any of its functions may panic. The panic goes to the caller of the operation, with all locks released. An operation
/// does nothing before it has compared or changed the word, so if the panic comes earlier, nothing has happened. A
/// [`compare_exchange`](Self::compare_exchange) that panics must not have changed the word. After such a panic, a
/// future may be polled again, and [`Domain::exit`](crate::Domain::exit) may be called again and goes on where it was.
/// If a wait for a lock is dropped after it has been handed the lock, and a panic keeps it from unlocking the word, the
/// task still has the lock.
///
/// ```
/// use core::sync::atomic::{AtomicU32, Ordering::{AcqRel, Acquire}};
/// use ufutex::{Access, Fault, UserMemory, Width};
///
/// /// Four words at guest address 0x1000.
/// struct Guest([AtomicU32; 4]);
///
/// impl Guest {
///     fn word(&self, address: u64, width: Width) -> Result<&AtomicU32, Fault> {
///         let index = address.checked_sub(0x1000).ok_or(Fault)? / 4;
///         let word = self.0.get(index as usize).ok_or(Fault)?;
///         (width == Width::U32).then_some(word).ok_or(Fault)
///     }
/// }
///
/// impl UserMemory for Guest {
///     fn load(&self, address: u64, width: Width) -> Result<u64, Fault> {
///         Ok(self.word(address, width)?.load(Acquire).into())
///     }
///     fn compare_exchange(&self, address: u64, width: Width, current: u64, new: u64) -> Result<Result<u64, u64>, Fault> {
///         let result = self.word(address, width)?.compare_exchange(current as u32, new as u32, AcqRel, Acquire);
///         Ok(result.map(u64::from).map_err(u64::from))
///     }
///     fn fault_in(&self, _address: u64, _access: Access) -> Result<(), Fault> {
///         Err(Fault) // everything that exists is always there
///     }
/// }
///
/// let guest = Guest([const { AtomicU32::new(7) }; 4]);
/// assert_eq!(guest.load(0x1004, Width::U32), Ok(7));
/// assert_eq!(guest.load(0x2000, Width::U32), Err(Fault));
/// assert_eq!(guest.compare_exchange(0x1004, Width::U32, 6, 8), Ok(Err(7)));
/// ```
pub trait UserMemory {
    /// Reads the word of `width` at `address` in one piece, with acquire ordering or stronger; never blocks.
    ///
    /// A bucket is locked meanwhile, and perhaps what the system knows of owners and waiters of locks, so this must not
    /// use any [`Domain`](crate::Domain), [`Task`](crate::Task) or [`System`](crate::System) either.
    ///
    /// # Errors
    /// [`Fault`] when it cannot be read now.
    fn load(&self, address: u64, width: Width) -> Result<u64, Fault>;

    /// Replaces the word of `width` at `address` with `new` if it holds `current`, in one piece, with acquire and release
    /// ordering or stronger; never blocks and uses no domain, like [`load`](Self::load). `Ok(Err(value))` is what
    /// it held instead.
    ///
    /// # Errors
    /// [`Fault`] when it cannot be written now.
    fn compare_exchange(&self, address: u64, width: Width, current: u64, new: u64) -> Result<Result<u64, u64>, Fault>;

    /// Makes `address` accessible; called without any lock held, after a [`Fault`]. It may use domains, tasks and the system.
    ///
    /// `Ok` means that the access will succeed, unless the memory goes away again: the engine tries again, a thousand
    /// times at most.
    ///
    /// # Errors
    /// [`Fault`] when the access is not allowed at all: the operation then ends with `EFAULT`.
    fn fault_in(&self, address: u64, access: Access) -> Result<(), Fault>;

    /// Copies memory from `address` on, in no particular order, faulting it in where necessary: a timeout, the
    /// arguments of `futex_waitv`, an entry of a robust list. Called without any lock held.
    ///
    /// As given here it loads byte after byte; an embedder who can do better should.
    ///
    /// # Errors
    /// [`Fault`] when any of it cannot be read.
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        for (i, byte) in into.iter_mut().enumerate() {
            let at = address.checked_add(i as u64).ok_or(Fault)?;
            *byte = retrying(|| self.load(at, Width::U8), || self.fault_in(at, Access::Read))? as u8;
        }
        Ok(())
    }

    /// Copies memory to `address` on, in no particular order, faulting it in where necessary: what a call tells its guest.
    /// Called without any lock held.
    ///
    /// As given here it exchanges word after word; an embedder who can do better should.
    ///
    /// # Errors
    /// [`Fault`] when any of it cannot be written; the rest may have been.
    fn write(&self, address: u64, from: &[u8]) -> Result<(), Fault> {
        let mut rest = from;
        while !rest.is_empty() {
            let at = address.checked_add((from.len() - rest.len()) as u64).ok_or(Fault)?;
            let word = rest.first_chunk().filter(|_| at.is_multiple_of(8));
            let (width, value) =
                word.map_or((Width::U8, rest[0].into()), |word| (Width::U64, u64::from_le_bytes(*word)));
            let mut current = 0;
            retrying(
                || {
                    while let Err(now) = self.compare_exchange(at, width, current, value)? {
                        current = now;
                    }
                    Ok(())
                },
                || self.fault_in(at, Access::Write),
            )?;
            rest = &rest[if word.is_some() { 8 } else { 1 }..];
        }
        Ok(())
    }

    /// Whether the guest may name these addresses at all: the kernel's `access_ok`. Of an address that it may not name
    /// every operation says `EFAULT`, even one that touches no memory. As given here: what begins in the lower half
    /// of the address space, as on x86-64 with 47 bits; the page behind it is never there.
    fn access_ok(&self, address: u64, bytes: u64) -> bool {
        let _ = bytes;
        address <= (1 << 47) - 4096
    }

    /// Who shares the word at `address`, for operations without `FUTEX_PRIVATE_FLAG`. As given here nobody maps what
    /// this guest maps.
    ///
    /// # Errors
    /// [`Fault`] when there is no memory, or it is anonymous and `access` is not allowed; the kernel takes
    /// read-only anonymous memory for a fault, too.
    fn scope(&self, address: u64, access: Access) -> Result<Scope, Fault> {
        let _ = (address, access);
        Ok(Scope::AddressSpace)
    }

    /// The node that the memory policy of `address` prefers, for `FUTEX2_MPOL`. As given here there are no policies.
    fn policy_node(&self, address: u64) -> Option<u32> {
        let _ = address;
        None
    }
}

/// How often an access is tried again that faults although it has been faulted in.
const FAULT_RETRIES: u32 = 1000;

/// Counts how often one operation has met a fault.
#[derive(Default)]
pub struct Faults(u32);

impl Faults {
    /// Faults in, once more; gives up when that has not helped a thousand times.
    #[cold]
    pub fn resolve(&mut self, fault_in: impl FnOnce() -> Result<(), Fault>) -> Result<(), Fault> {
        self.0 += 1;
        if self.0 > FAULT_RETRIES { Err(Fault) } else { fault_in() }
    }
}

/// Tries `access` until it does not fault, faulting in between.
fn retrying<R>(
    mut access: impl FnMut() -> Result<R, Fault>,
    mut fault_in: impl FnMut() -> Result<(), Fault>,
) -> Result<R, Fault> {
    let mut faults = Faults::default();
    loop {
        match access() {
            Ok(result) => return Ok(result),
            Err(Fault) => faults.resolve(&mut fault_in)?,
        }
    }
}
