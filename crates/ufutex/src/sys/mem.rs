//! Guest memory, behind the trait `UserMemory`: loads, compare-and-swaps and faults of futex words.

/// A word could not be accessed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault;

/// The kind of access that faulted.
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
    /// Four bytes: Linux's only size.
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

/// The threads that share a futex word.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Scope {
    /// The threads of one domain: futex(2) with `FUTEX_PRIVATE_FLAG`.
    Private,
    /// All domains of a [`PidNamespace`](crate::PidNamespace) that map the object, or, if it is a
    /// [`SharedObject`](crate::SharedObject), all domains of the system that do. Each may map it at another address.
    Object {
        /// The object: a file or a piece of shared memory.
        id: ObjectId,
        /// The word's offset in the object, in bytes.
        offset: u64,
    },
    /// The threads of one domain, for an operation without `FUTEX_PRIVATE_FLAG` on memory that only this domain maps. As in the
    /// kernel, it does not meet private operations on that address.
    AddressSpace,
}

/// Names an object that several domains map. There are two kinds:
///
/// - Below 2^61: an object of one [`PidNamespace`](crate::PidNamespace), whose number the embedder chooses, such as a
///   counter's for each file. In another namespace the number means another object.
/// - From 2^61 to 2^62: a [`SharedObject`](crate::SharedObject), which domains of several namespaces map. The system chooses
///   the number ([`SharedObject::id`](crate::SharedObject::id)). Use no other, and none that a guest chooses: until the system
///   gives a number out it names an object of the caller's namespace, and no later wake finds waiters that are queued by then.
///
/// ```
/// use ufutex::ObjectId;
///
/// assert_eq!(ObjectId::new(7).map(ObjectId::get), Some(7));
/// assert_eq!(ObjectId::new(1 << 62), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ObjectId(u64);

impl ObjectId {
    pub(crate) const BITS: u32 = 61;
    const SYSTEM: u64 = 1 << Self::BITS;

    /// The object with the number `id`. `None` from 2^62 on.
    #[must_use]
    pub const fn new(id: u64) -> Option<Self> {
        if id < Self::SYSTEM << 1 { Some(Self(id)) } else { None }
    }

    /// The object at this address, for an embedder that has one for each shared mapping. It must not be reused while a guest
    /// maps it. `None` for tagged pointers, from 2^61 on.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use ufutex::ObjectId;
    ///
    /// let mapping = Arc::new([0; 4096]);
    /// let object = ObjectId::from_ptr(Arc::as_ptr(&mapping)).expect("no tag");
    /// assert_ne!(Some(object), ObjectId::from_ptr(&raw const mapping[1]));
    /// ```
    #[must_use]
    pub fn from_ptr<T: ?Sized>(object: *const T) -> Option<Self> {
        let address = object.addr() as u64;
        (address < Self::SYSTEM).then_some(Self(address))
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    pub(crate) const fn system(number: u64) -> Self {
        Self(Self::SYSTEM | number)
    }

    /// `None` for an object of a namespace.
    #[inline]
    pub(crate) const fn of_system(self) -> Option<u64> {
        if self.0 & Self::SYSTEM != 0 { Some(self.0 & !Self::SYSTEM) } else { None }
    }
}

/// A guest's memory.
///
/// The engine reads and changes words with a bucket locked. So [`load`](Self::load) and
/// [`compare_exchange`](Self::compare_exchange) must not block: if the page is not present they return [`Fault`]. The engine
/// then unlocks, calls [`fault_in`](Self::fault_in), which may block, and starts over.
///
/// All functions may panic. The panic reaches the caller of the operation, with all locks released. Nothing has happened if it
/// comes before the word has been compared or changed; a `compare_exchange` that panics must not have changed it. A future may
/// be polled again, and [`Domain::exit`](crate::Domain::exit), called again, goes on where it stopped. If a wait that was
/// handed a lock is dropped, and a panic keeps it from unlocking, its task keeps the lock.
///
/// ```
/// use core::sync::atomic::{AtomicU64, Ordering::{AcqRel, Acquire}};
/// use ufutex::{Access, Fault, UserMemory, Width};
///
/// /// Sixteen bytes at guest address 0x1000, little-endian.
/// struct Guest([AtomicU64; 2]);
///
/// impl Guest {
///     /// The 64 bits that the address is in, and the first of its own bits among them.
///     fn bits(&self, address: u64) -> Result<(&AtomicU64, u64), Fault> {
///         let index = address.checked_sub(0x1000).ok_or(Fault)? / 8;
///         Ok((self.0.get(index as usize).ok_or(Fault)?, address % 8 * 8))
///     }
/// }
///
/// impl UserMemory for Guest {
///     fn load(&self, address: u64, width: Width) -> Result<u64, Fault> {
///         let (bits, first) = self.bits(address)?;
///         Ok(bits.load(Acquire) >> first & width.max())
///     }
///     fn compare_exchange(&self, address: u64, width: Width, current: u64, new: u64) -> Result<Result<u64, u64>, Fault> {
///         let ((bits, first), max) = (self.bits(address)?, width.max());
///         let replaced = |all: u64| (all >> first & max == current).then_some(all & !(max << first) | new << first);
///         let result = bits.fetch_update(AcqRel, Acquire, replaced);
///         Ok(result.map(|all| all >> first & max).map_err(|all| all >> first & max))
///     }
///     fn fault_in(&self, _: u64, _: Access) -> Result<(), Fault> { Err(Fault) } // what exists is always there
/// }
///
/// let guest = Guest([const { AtomicU64::new(0x0000_0007_0000_0007) }; 2]);
/// assert_eq!(guest.load(0x1004, Width::U32), Ok(7));
/// assert_eq!(guest.load(0x2000, Width::U32), Err(Fault));
/// assert_eq!(guest.compare_exchange(0x1004, Width::U32, 6, 8), Ok(Err(7)));
/// assert_eq!(guest.compare_exchange(0x1004, Width::U8, 7, 8), Ok(Ok(7)));
/// assert_eq!(guest.load(0x1000, Width::U64), Ok(0x0000_0008_0000_0007));
/// ```
///
/// Addresses are multiples of the width. All widths have to work: a futex word has that of its call, the provided
/// [`read`](Self::read) loads bytes, and [`write`](Self::write) exchanges 64 bits where they are aligned, and bytes elsewhere.
pub trait UserMemory {
    /// Reads the word of `width` at `address` atomically, with acquire ordering or stronger.
    ///
    /// A bucket and the graph of lock owners may be locked. So it must neither block nor use any [`Domain`](crate::Domain),
    /// [`Task`](crate::Task) or [`System`](crate::System).
    ///
    /// # Errors
    /// [`Fault`] if the word cannot be read now.
    fn load(&self, address: u64, width: Width) -> Result<u64, Fault>;

    /// Atomically replaces the word of `width` at `address` with `new` if it holds `current`, with acquire and release ordering
    /// or stronger. Returns `Ok(Ok(current))` then. `Ok(Err(value))` means that the word held `value`, and is unchanged. What
    /// [`load`](Self::load) must not do, it must not do either.
    ///
    /// # Errors
    /// [`Fault`] if the word cannot be written now.
    fn compare_exchange(&self, address: u64, width: Width, current: u64, new: u64) -> Result<Result<u64, u64>, Fault>;

    /// Makes `address` accessible. Called after a [`Fault`], with no lock held: it may use domains, tasks and the system. `Ok`
    /// means that the access will succeed, unless the memory goes away again. The engine retries at most a thousand times.
    ///
    /// # Errors
    /// [`Fault`] if the access is not allowed at all: the operation then ends with `EFAULT`.
    fn fault_in(&self, address: u64, access: Access) -> Result<(), Fault>;

    /// Copies memory from `address` on, in any order, and faults it in where necessary: a timeout, the arguments of
    /// `futex_waitv`, an entry of a robust list. Called with no lock held. The provided one goes byte by byte.
    ///
    /// # Errors
    /// [`Fault`] if any of it cannot be read.
    fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        for (i, byte) in into.iter_mut().enumerate() {
            let at = address.checked_add(i as u64).ok_or(Fault)?;
            *byte = retrying(|| self.load(at, Width::U8), || self.fault_in(at, Access::Read))? as u8;
        }
        Ok(())
    }

    /// Copies memory to `address` on, in any order, and faults it in where necessary: the results of a system call. Called with
    /// no lock held. The provided one goes word by word.
    ///
    /// # Errors
    /// [`Fault`] if any of it cannot be written; the rest may have been written.
    fn write(&self, address: u64, from: &[u8]) -> Result<(), Fault> {
        let mut rest = from;
        while !rest.is_empty() {
            let at = address.checked_add((from.len() - rest.len()) as u64).ok_or(Fault)?;
            let word = rest.first_chunk().filter(|_| at.is_multiple_of(8));
            let (width, value) =
                word.map_or((Width::U8, rest[0].into()), |word| (Width::U64, u64::from_le_bytes(*word)));
            store(self, at, width, value)?;
            rest = &rest[if word.is_some() { 8 } else { 1 }..];
        }
        Ok(())
    }

    /// Whether the guest may name these addresses at all: the kernel's `access_ok`. If not, every operation is `EFAULT`, even
    /// if it accesses no memory. Provided: addresses of 47 bits, as on x86-64, except the last page.
    fn access_ok(&self, address: u64, bytes: u64) -> bool {
        let _ = bytes;
        address <= (1 << 47) - 4096
    }

    /// Which domains share the word at `address`, for operations without `FUTEX_PRIVATE_FLAG`, by its mapping, whether the page
    /// is there or not. Provided: no other domain maps this guest's memory. Called with no lock held, so it may block.
    ///
    /// # Errors
    /// [`Fault`] if there is no memory, or, as in the kernel, if it is anonymous and `access` is not allowed.
    fn scope(&self, address: u64, access: Access) -> Result<Scope, Fault> {
        let _ = (address, access);
        Ok(Scope::AddressSpace)
    }

    /// The node that the memory policy of `address` prefers, for `FUTEX2_MPOL`. Provided: there are no policies.
    fn policy_node(&self, address: u64) -> Option<u32> {
        let _ = address;
        None
    }
}

/// [`Fault`] if the guest may not name these addresses.
pub fn check_access<M: UserMemory + ?Sized>(memory: &M, address: u64, bytes: u64) -> Result<(), Fault> {
    if memory.access_ok(address, bytes) { Ok(()) } else { Err(Fault) }
}

const FAULT_RETRIES: u32 = 1000;

#[derive(Default)]
pub struct Faults(u32);

impl Faults {
    /// Faults in the word. Fails after `FAULT_RETRIES`.
    #[cold]
    pub fn resolve(&mut self, fault_in: impl FnOnce() -> Result<(), Fault>) -> Result<(), Fault> {
        self.0 += 1;
        if self.0 > FAULT_RETRIES { Err(Fault) } else { fault_in() }
    }
}

/// Stores a word in one piece, and faults it in where necessary.
pub fn store<M: UserMemory + ?Sized>(memory: &M, address: u64, width: Width, value: u64) -> Result<(), Fault> {
    let mut current = 0;
    let exchange = || {
        while let Err(now) = memory.compare_exchange(address, width, current, value)? {
            current = now;
        }
        Ok(())
    };
    retrying(exchange, || memory.fault_in(address, Access::Write))
}

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
