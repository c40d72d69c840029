//! Atomics, cells and barriers with the interface of those in `core`. Each access takes virtual time.

use std::panic::Location;
use std::sync::atomic as host;

use crate::current::{self, access};
use crate::machine::Access;

pub use std::sync::atomic::Ordering;

/// A barrier. Only a full barrier takes time, as on machines that order stores.
pub fn fence(order: Ordering) {
    host::fence(order);
    if order == Ordering::SeqCst {
        current::barrier();
    }
}

/// One turn of a loop that waits for another core.
pub fn spin_loop() {
    if current::is_simulated() { current::pause() } else { std::hint::spin_loop() }
}

/// The methods of all atomics.
macro_rules! accesses {
    ($value:ty) => {
        #[inline]
        #[track_caller]
        fn touch(&self, kind: Access) {
            access(kind, self.0.as_ptr().addr(), size_of::<$value>(), Location::caller());
        }

        /// Returns the value.
        #[inline]
        #[track_caller]
        pub fn load(&self, order: Ordering) -> $value {
            self.touch(Access::Load);
            self.0.load(order)
        }

        /// Sets the value. A sequentially consistent store is a locked instruction.
        #[inline]
        #[track_caller]
        pub fn store(&self, value: $value, order: Ordering) {
            self.touch(if order == Ordering::SeqCst { Access::Locked } else { Access::Store });
            self.0.store(value, order);
        }

        /// Sets the value, and returns the old one.
        #[inline]
        #[track_caller]
        pub fn swap(&self, value: $value, order: Ordering) -> $value {
            self.touch(Access::Locked);
            self.0.swap(value, order)
        }

        /// Sets the value to `new` if it is `current`, and returns the old one.
        ///
        /// # Errors
        /// The value, if it is not `current`.
        #[inline]
        #[track_caller]
        pub fn compare_exchange(
            &self,
            current: $value,
            new: $value,
            success: Ordering,
            failure: Ordering,
        ) -> Result<$value, $value> {
            self.touch(Access::Locked);
            self.0.compare_exchange(current, new, success, failure)
        }

        /// As [`compare_exchange`](Self::compare_exchange). It never fails spuriously here.
        ///
        /// # Errors
        /// The value, if it is not `current`.
        #[inline]
        #[track_caller]
        pub fn compare_exchange_weak(
            &self,
            current: $value,
            new: $value,
            success: Ordering,
            failure: Ordering,
        ) -> Result<$value, $value> {
            self.compare_exchange(current, new, success, failure)
        }

        /// Replaces the value by the result of `change`, again and again until no other thread interferes. Returns the
        /// old value.
        ///
        /// # Errors
        /// The value for which `change` returned `None`.
        #[inline]
        #[track_caller]
        pub fn fetch_update(
            &self,
            success: Ordering,
            failure: Ordering,
            mut change: impl FnMut($value) -> Option<$value>,
        ) -> Result<$value, $value> {
            let mut held = self.load(failure);
            while let Some(new) = change(held) {
                match self.compare_exchange(held, new, success, failure) {
                    Ok(was) => return Ok(was),
                    Err(now) => held = now,
                }
            }
            Err(held)
        }

        /// The value, for a caller with exclusive access.
        pub fn get_mut(&mut self) -> &mut $value {
            self.0.get_mut()
        }

        /// Consumes the atomic, and returns the value.
        pub fn into_inner(self) -> $value {
            self.0.into_inner()
        }

        /// The address of the value. Accesses through it take no time.
        pub const fn as_ptr(&self) -> *mut $value {
            self.0.as_ptr()
        }
    };
}

macro_rules! operation {
    ($value:ty, $what:literal, $($name:ident),*) => {
        $(
            #[doc = $what]
            #[inline]
            #[track_caller]
            pub fn $name(&self, value: $value, order: Ordering) -> $value {
                self.touch(Access::Locked);
                self.0.$name(value, order)
            }
        )*
    };
}

macro_rules! integer {
    ($name:ident, $value:ident) => {
        /// An integer that cores share.
        #[repr(transparent)]
        #[derive(Default)]
        pub struct $name(host::$name);

        impl $name {
            /// Makes an atomic that holds `value`.
            pub const fn new(value: $value) -> Self {
                Self(host::$name::new(value))
            }

            accesses!($value);
            operation!(
                $value,
                "Combines it with `value`; what it held.",
                fetch_add,
                fetch_sub,
                fetch_and,
                fetch_or,
                fetch_xor,
                fetch_nand,
                fetch_max,
                fetch_min
            );

            /// Adds `value` with one instruction that is not locked: for a value to which no other thread writes, or
            /// that a restartable sequence guards.
            #[inline]
            #[track_caller]
            pub fn add_unlocked(&self, value: $value) {
                self.touch(Access::Update);
                let relaxed = Ordering::Relaxed;
                self.0.store(self.0.load(relaxed).wrapping_add(value), relaxed);
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }

        impl From<$value> for $name {
            fn from(value: $value) -> Self {
                Self::new(value)
            }
        }
    };
}

integer!(AtomicU8, u8);
integer!(AtomicU16, u16);
integer!(AtomicU32, u32);
integer!(AtomicU64, u64);
integer!(AtomicUsize, usize);
integer!(AtomicI32, i32);
integer!(AtomicI64, i64);
integer!(AtomicIsize, isize);

/// A flag that cores share.
#[repr(transparent)]
#[derive(Default, Debug)]
pub struct AtomicBool(host::AtomicBool);

impl AtomicBool {
    /// Makes an atomic that holds `value`.
    pub const fn new(value: bool) -> Self {
        Self(host::AtomicBool::new(value))
    }

    accesses!(bool);
    operation!(bool, "Combines it with `value`; what it held.", fetch_and, fetch_or, fetch_xor, fetch_nand);
}

/// A pointer that cores share.
#[repr(transparent)]
pub struct AtomicPtr<T>(host::AtomicPtr<T>);

impl<T> AtomicPtr<T> {
    /// Makes an atomic that holds `value`.
    pub const fn new(value: *mut T) -> Self {
        Self(host::AtomicPtr::new(value))
    }

    accesses!(*mut T);
}

impl<T> Default for AtomicPtr<T> {
    fn default() -> Self {
        Self::new(std::ptr::null_mut())
    }
}

impl<T> std::fmt::Debug for AtomicPtr<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// The largest number of a cell's lines that an access touches: an access to a cell of a page does not walk through all
/// of it.
const CELL_LINES: usize = 4;

/// A cell that a lock elsewhere guards. Reading it loads its lines; changing it needs them exclusively.
#[repr(transparent)]
#[derive(Default)]
pub struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    /// Makes a cell that holds `value`.
    pub const fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    #[inline]
    #[track_caller]
    fn touch(&self, kind: Access) {
        access(kind, self.0.get().addr(), size_of::<T>().min(CELL_LINES * crate::machine::LINE), Location::caller());
    }

    /// Reads the value.
    #[inline]
    #[track_caller]
    pub fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        self.touch(Access::Load);
        read(self.0.get())
    }

    /// Changes the value.
    #[inline]
    #[track_caller]
    pub fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        self.touch(Access::Update);
        write(self.0.get())
    }

    /// The value, for a caller with exclusive access.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }

    /// Consumes the cell, and returns the value.
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }
}
