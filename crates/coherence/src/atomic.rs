//! Atomics, cells and barriers with the interface of `core`'s, each access of which takes virtual time.

use std::panic::Location;
use std::sync::atomic as host;

use crate::current::{self, access};
use crate::machine::Access;

pub use std::sync::atomic::Ordering;

/// A barrier: only a full one costs something, as on machines that order stores.
pub fn fence(order: Ordering) {
    host::fence(order);
    if order == Ordering::SeqCst {
        current::barrier();
    }
}

/// A turn of a loop that waits for another core.
pub fn spin_loop() {
    if current::is_simulated() { current::pause() } else { std::hint::spin_loop() }
}

/// What all atomics have.
macro_rules! accesses {
    ($value:ty) => {
        #[inline]
        #[track_caller]
        fn touch(&self, kind: Access) {
            access(kind, self.0.as_ptr().addr(), size_of::<$value>(), Location::caller());
        }

        /// What it holds.
        #[inline]
        #[track_caller]
        pub fn load(&self, order: Ordering) -> $value {
            self.touch(Access::Load);
            self.0.load(order)
        }

        /// Lets it hold `value`. A sequentially consistent store is a locked instruction.
        #[inline]
        #[track_caller]
        pub fn store(&self, value: $value, order: Ordering) {
            self.touch(if order == Ordering::SeqCst { Access::Locked } else { Access::Store });
            self.0.store(value, order);
        }

        /// Lets it hold `value`; what it held.
        #[inline]
        #[track_caller]
        pub fn swap(&self, value: $value, order: Ordering) -> $value {
            self.touch(Access::Locked);
            self.0.swap(value, order)
        }

        /// Lets it hold `new` if it holds `current`; what it held.
        ///
        /// # Errors
        /// What it held, if that was not `current`.
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

        /// As [`compare_exchange`](Self::compare_exchange): here it never fails for no reason.
        ///
        /// # Errors
        /// What it held, if that was not `current`.
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

        /// Changes it by `change` as long as that has an answer; what it held.
        ///
        /// # Errors
        /// What it holds, if `change` has no answer.
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

        /// What it holds, for who has it alone.
        pub fn get_mut(&mut self) -> &mut $value {
            self.0.get_mut()
        }

        /// What it holds, at its end.
        pub fn into_inner(self) -> $value {
            self.0.into_inner()
        }

        /// Where it lies. What is done there takes no time.
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
            /// Holds `value`.
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

            /// Adds `value` by one instruction that is not locked: what nobody else writes to, or what a restartable
            /// sequence guards.
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
    /// Holds `value`.
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
    /// Holds `value`.
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

/// Up to how many lines of a cell an access to it touches: who has a page in a cell does not walk through it.
const CELL_LINES: usize = 4;

/// A cell whose guard is a lock elsewhere. Reading it loads its lines; who may write has them alone.
#[repr(transparent)]
#[derive(Default)]
pub struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    /// Holds `value`.
    pub const fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    #[inline]
    #[track_caller]
    fn touch(&self, kind: Access) {
        access(kind, self.0.get().addr(), size_of::<T>().min(CELL_LINES * crate::machine::LINE), Location::caller());
    }

    /// For who reads it.
    #[inline]
    #[track_caller]
    pub fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        self.touch(Access::Load);
        read(self.0.get())
    }

    /// For who changes it.
    #[inline]
    #[track_caller]
    pub fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        self.touch(Access::Update);
        write(self.0.get())
    }

    /// What it holds, for who has it alone.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }

    /// What it holds, at its end.
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }
}
