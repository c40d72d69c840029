//! What operations name: a key, which is where waiters are queued, and a target, which is a key with a word.

use core::sync::atomic;

use crate::error::Error;
use crate::sync::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};
use crate::sys::mem::{Access, Fault, ObjectId, Scope, UserMemory, Width};

/// Where waiters of a word are queued: the word's address, and who shares it, which is all that a wake and a requeue need. Keys
/// are equal if address and scope are, whatever the word's width. Every [`Target`] is a key, and so is an [`Address`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no futex key",
    note = "keys are references to atomics, `GuestWord` and `Address`, and each of them in `At`",
    note = "for a number there is `Address::at`, for a pointer `Address::of`"
)]
pub trait Key {
    /// The word's address.
    fn address(&self) -> u64;

    /// The scope in which the word is shared. By default [`Scope::Private`].
    #[inline(always)]
    fn scope(&self) -> Scope {
        Scope::Private
    }

    /// The node in whose table the word is looked up: see [`System::on_node`](crate::System::on_node). A node that the system
    /// does not have is the same as `None`, the default.
    #[inline(always)]
    fn node(&self) -> Option<u32> {
        None
    }
}

/// A futex word that operations access: wait, wake_op, and locks with priority inheritance. Implemented for references to
/// atomic numbers of 8 to 64 bits and to `AtomicBool`, for [`GuestWord`], and for each of them in [`At`].
///
/// An embedder's own target may count on this:
/// - An attempt to wait calls [`load`](Self::load) once, with the bucket of the word locked. So `load` must be short, and must
///   not call the engine. With [`DomainOptions::early_return`](crate::DomainOptions::early_return) a wait also calls it before
///   its first attempt, with no lock held, and ends if the word differs.
/// - If `load` returns [`Fault`], the engine unlocks the bucket, calls [`fault_in`](Self::fault_in), and makes another attempt.
/// - A wait does not load the word once it is queued. A future makes its attempt in its first poll.
/// - [`Domain::wait_any`](crate::Domain::wait_any) makes an attempt for each word, in their order, until one differs.
///
/// A target that is only waited for needs an address and `load`:
///
/// ```
/// use std::sync::atomic::{AtomicU32, Ordering};
/// use ufutex::{Domain, Error, Fault, Key, System, Target};
///
/// struct State<'a>(&'a AtomicU32);
///
/// impl Key for State<'_> {
///     fn address(&self) -> u64 { self.0.as_ptr().addr() as u64 }
/// }
///
/// impl Target for State<'_> {
///     type Value = u32;
///     // The upper bits are a count, which no wait compares.
///     fn load(&self) -> Result<u32, Fault> { Ok(self.0.load(Ordering::Acquire) & 0xff) }
/// }
///
/// let domain = Domain::new(&System::new());
/// assert_eq!(domain.wait(State(&AtomicU32::new(0x301)), 0), Err(Error::Again));
/// ```
///
/// A target that wraps an atomic calls `Target::load(&self.0)`: `self.0.load()` is the atomic's own method.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no futex word",
    note = "words are references to `AtomicU8` to `AtomicU64`, `AtomicI8` to `AtomicI64` and `AtomicBool`, `GuestWord`, and each of them in `At`",
    note = "an `Address` can only be woken, because it may not be read"
)]
pub trait Target: Key {
    /// The type of the word's value.
    type Value: WordValue;

    /// The word's size. By default that of the value.
    #[inline(always)]
    fn width(&self) -> Width {
        match size_of::<Self::Value>() {
            1 => Width::U8,
            2 => Width::U16,
            4 => Width::U32,
            _ => Width::U64,
        }
    }

    /// Reads the word, with acquire ordering or stronger. It must not block, because it may be called with a bucket
    /// locked. If the word's page may be missing, return [`Fault`] and do not bring it in, as a page fault would.
    ///
    /// # Errors
    /// [`Fault`] if the word cannot be read now.
    fn load(&self) -> Result<Self::Value, Fault>;

    /// Replaces the word's value with `new` if it is `current`, with acquire and release ordering or stronger, and without
    /// blocking. `Ok(Err(value))` means that the word holds `value` instead. Only [`wake_op`](crate::Domain::wake_op) and locks
    /// with priority inheritance call it. The default returns [`Fault`], and they fail with [`Error::Fault`].
    ///
    /// # Errors
    /// [`Fault`] if the word cannot be written now.
    fn compare_exchange(
        &self,
        current: Self::Value,
        new: Self::Value,
    ) -> Result<Result<Self::Value, Self::Value>, Fault> {
        let _ = (current, new);
        Err(Fault)
    }

    /// Makes the word accessible after a [`Fault`], with no lock held. The default returns [`Fault`], which suits memory whose
    /// pages are always there.
    ///
    /// # Errors
    /// [`Fault`] if the access is not allowed at all.
    fn fault_in(&self, access: Access) -> Result<(), Fault> {
        let _ = access;
        Err(Fault)
    }

    /// As `load`, for 32-bit words. The upper bits of a wider word are dropped.
    #[doc(hidden)]
    fn load32(&self) -> Result<u32, Fault> {
        self.load().map(|value| value.to_bits() as u32)
    }

    /// As `compare_exchange`, for 32-bit words. [`Fault`] if the word is too narrow for `current` or `new`.
    #[doc(hidden)]
    fn compare_exchange32(&self, current: u32, new: u32) -> Result<Result<u32, u32>, Fault> {
        let [Some(current), Some(new)] = [current, new].map(|value| WordValue::from_bits(value.into())) else {
            return Err(Fault);
        };
        let truncated = |value: Self::Value| value.to_bits() as u32;
        Ok(self.compare_exchange(current, new)?.map(truncated).map_err(truncated))
    }

    /// Whether the word can hold `value` at all. By default it can.
    #[inline(always)]
    fn can_hold(&self, value: Self::Value) -> bool {
        let _ = value;
        true
    }
}

/// The value of a futex word.
pub trait WordValue: Copy + PartialEq {
    /// Its bits, and zeroes above them.
    fn to_bits(self) -> u64;

    /// The value with these bits. `None` if there is none.
    fn from_bits(bits: u64) -> Option<Self>;
}

macro_rules! word_value {
    ($($value:ty as $bits:ty),*) => {$(
        impl WordValue for $value {
            #[inline(always)]
            fn to_bits(self) -> u64 {
                (self as $bits).into()
            }
            #[inline(always)]
            fn from_bits(bits: u64) -> Option<Self> {
                <$bits>::try_from(bits).ok().map(|bits| bits as $value)
            }
        }
    )*};
}

word_value!(u8 as u8, u16 as u16, u32 as u32, u64 as u64, i8 as u8, i16 as u16, i32 as u32, i64 as u64);

impl WordValue for bool {
    #[inline(always)]
    fn to_bits(self) -> u64 {
        self.into()
    }
    #[inline(always)]
    fn from_bits(bits: u64) -> Option<Self> {
        (bits <= 1).then_some(bits == 1)
    }
}

macro_rules! native_target {
    ($($atomic:ty: $value:ty),*) => {$(
        impl Key for &$atomic {
            #[inline(always)]
            fn address(&self) -> u64 {
                core::ptr::from_ref::<$atomic>(self).addr() as u64
            }
        }

        impl Target for &$atomic {
            type Value = $value;

            #[inline(always)]
            fn load(&self) -> Result<$value, Fault> {
                Ok((**self).load(Ordering::Acquire)) // [M]
            }
            #[inline(always)]
            fn compare_exchange(&self, current: $value, new: $value) -> Result<Result<$value, $value>, Fault> {
                Ok((**self).compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire)) // [M], [P]
            }
            #[inline(always)]
            fn fault_in(&self, _access: Access) -> Result<(), Fault> {
                Ok(())
            }
        }
    )*};
}

native_target!(AtomicU8: u8, AtomicU16: u16, AtomicU32: u32, AtomicU64: u64);
// From `core` and not from `sync`: the models' atomics have none of these.
native_target!(atomic::AtomicI8: i8, atomic::AtomicI16: i16, atomic::AtomicI32: i32, atomic::AtomicI64: i64);
native_target!(atomic::AtomicBool: bool);

/// The address of a word of this program, which may have been freed already and is not accessed.
///
/// Between a lock's change of its word and its wake, another thread may take the lock, give it back and free it. A reference
/// must not exist then. The address may still be woken: a waiter of another word that is there by now wakes up too early.
///
/// ```
/// use std::sync::atomic::AtomicU32;
/// use ufutex::{Address, Domain, System};
/// let domain = Domain::new(&System::new());
/// let word = Box::new(AtomicU32::new(0));
/// let address = Address::of(&raw const *word);
/// drop(word);
/// assert_eq!(domain.wake(address, 1), 0); // nobody waits
/// ```
///
/// It is the same key as a reference to the word. An operation that accesses its word does not accept it:
///
/// ```compile_fail,E0277
/// # use ufutex::{Address, Domain, System};
/// # let domain = Domain::new(&System::new());
/// let _ = domain.wait(Address::of(&0), 0);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Address(u64);

impl Address {
    /// The address of `word`, which may be dangling.
    #[inline(always)]
    #[must_use]
    pub fn of<T: ?Sized>(word: *const T) -> Self {
        Self(word.addr() as u64)
    }

    /// A key with this address, such as that of a [`GuestWord`] or of a [`Target`] of your own. For small consecutive
    /// numbers see [`DomainOptions::keys_are_ids`](crate::DomainOptions::keys_are_ids).
    #[inline(always)]
    #[must_use]
    pub const fn at(address: u64) -> Self {
        Self(address)
    }
}

impl Key for Address {
    #[inline(always)]
    fn address(&self) -> u64 {
        self.0
    }
}

/// A word in a guest's memory. It is private, as with `FUTEX_PRIVATE_FLAG`; [`shared`](Self::shared) is the word without it.
#[derive(Debug)]
pub struct GuestWord<'m, M: ?Sized> {
    memory: &'m M,
    address: u64,
    width: Width,
}

impl<M: ?Sized> Clone for GuestWord<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<M: ?Sized> Copy for GuestWord<'_, M> {}

impl<'m, M: UserMemory + ?Sized> GuestWord<'m, M> {
    /// The word of `width` at `address` of `memory`. The word is not accessed here.
    ///
    /// # Errors
    /// [`Error::Invalid`] if `address` is not a multiple of the width.
    pub fn new(memory: &'m M, address: u64, width: Width) -> Result<Self, Error> {
        if address.is_multiple_of(width.bytes()) { Ok(Self { memory, address, width }) } else { Err(Error::Invalid) }
    }

    /// The word in the scope that the memory gives it ([`UserMemory::scope`]): guests that map one object meet at its words.
    ///
    /// # Errors
    /// [`Fault`] if there is no memory, or if it does not allow `access`.
    pub fn shared(self, access: Access) -> Result<At<Self>, Fault> {
        Ok(match self.memory.scope(self.address, access)? {
            // As in the kernel, an operation that is not private does not meet private ones.
            Scope::Private => At::address_space(self),
            scope => At::new(self, scope),
        })
    }
}

impl<M: UserMemory + ?Sized> Key for GuestWord<'_, M> {
    fn address(&self) -> u64 {
        self.address
    }
}

impl<M: UserMemory + ?Sized> Target for GuestWord<'_, M> {
    type Value = u64;

    fn width(&self) -> Width {
        self.width
    }
    #[inline(always)]
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

/// A key or target in another scope, or on a node: [`System::on_node`](crate::System::on_node).
///
/// ```
/// use std::sync::atomic::AtomicU32;
/// use ufutex::{At, Domain, ObjectId, Scope, System};
///
/// let domain = Domain::new(&System::new());
/// let word = AtomicU32::new(0);
/// let id = ObjectId::new(1).expect("a small number");
/// assert_eq!(domain.wake(At::object(&word, id, 64), 1), 0);
/// assert_eq!(domain.wake(At::new(&word, Scope::AddressSpace), 1), 0);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct At<T> {
    target: T,
    scope: Scope,
    node: Option<u32>,
}

impl<T: Key> At<T> {
    /// `target` in this scope.
    pub fn new(target: T, scope: Scope) -> Self {
        let node = target.node();
        Self { target, scope, node }
    }

    /// `target`, which lies at `offset` in the object `id`.
    pub fn object(target: T, id: ObjectId, offset: u64) -> Self {
        Self::new(target, Scope::Object { id, offset })
    }

    /// `target`, without `FUTEX_PRIVATE_FLAG`, in memory that no other domain maps.
    pub fn address_space(target: T) -> Self {
        Self::new(target, Scope::AddressSpace)
    }

    pub(crate) fn on_node(self, node: Option<u32>) -> Self {
        Self { node, ..self }
    }
}

impl<T: Key> Key for At<T> {
    fn address(&self) -> u64 {
        self.target.address()
    }
    fn scope(&self) -> Scope {
        self.scope
    }
    fn node(&self) -> Option<u32> {
        self.node
    }
}

impl<T: Target> Target for At<T> {
    type Value = T::Value;

    fn width(&self) -> Width {
        self.target.width()
    }
    fn load(&self) -> Result<T::Value, Fault> {
        self.target.load()
    }
    fn compare_exchange(&self, current: T::Value, new: T::Value) -> Result<Result<T::Value, T::Value>, Fault> {
        self.target.compare_exchange(current, new)
    }
    fn fault_in(&self, access: Access) -> Result<(), Fault> {
        self.target.fault_in(access)
    }
    fn can_hold(&self, value: T::Value) -> bool {
        self.target.can_hold(value)
    }
}
