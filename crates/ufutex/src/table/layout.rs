//! How a bucket is laid out in cache lines.

use core::ops::Deref;

use super::list::Queue;
use crate::sync::UnsafeCell;
#[cfg(feature = "lab")]
use crate::sync::{AtomicPtr, Ordering};

mod sealed {
    pub trait Sealed {}
}

/// A bucket's layout. It is a type parameter, so that no layout pays for another.
pub trait Layout: sealed::Sealed + Sized + 'static {
    /// The layout's name in the lab and in reports.
    const NAME: &'static str;
    #[doc(hidden)]
    type Queue: Deref<Target = UnsafeCell<Queue>> + Default;
    #[doc(hidden)]
    type Back: Back + Default;
}

/// A bucket's pointer back to its table, or nothing.
#[doc(hidden)]
pub trait Back {
    /// Reads the pointer, as an operation does before it locks the bucket. Returns whether it points to `table`.
    fn check(&self, table: *const ()) -> bool;
    /// Sets the pointer, when the table is made.
    fn set(&self, table: *mut ());
}

/// 64 bytes, no pointer back to the table: the default layout.
pub enum Lean {}

impl sealed::Sealed for Lean {}
impl Layout for Lean {
    const NAME: &'static str = "lean";
    type Queue = Inline;
    type Back = ();
}

impl Back for () {
    #[inline(always)]
    fn check(&self, _table: *const ()) -> bool {
        true
    }
    fn set(&self, _table: *mut ()) {}
}

/// 64 bytes with a pointer back to the table, which every operation reads before it locks: the kernel's layout until
/// 7.2. It exists only for comparison.
#[cfg(feature = "lab")]
pub enum Packed {}

#[cfg(feature = "lab")]
impl sealed::Sealed for Packed {}
#[cfg(feature = "lab")]
impl Layout for Packed {
    const NAME: &'static str = "packed";
    type Queue = Inline;
    type Back = Priv;
}

/// 128 bytes, with the queue on a line of its own. It exists only for comparison.
#[cfg(feature = "lab")]
pub enum Split {}

#[cfg(feature = "lab")]
impl sealed::Sealed for Split {}
#[cfg(feature = "lab")]
impl Layout for Split {
    const NAME: &'static str = "split";
    type Queue = OwnLine;
    type Back = ();
}

/// The queue on the cache line of the lock.
#[doc(hidden)]
pub struct Inline(UnsafeCell<Queue>);

impl Default for Inline {
    fn default() -> Self {
        Self(UnsafeCell::new(Queue::new()))
    }
}

impl Deref for Inline {
    type Target = UnsafeCell<Queue>;
    #[inline(always)]
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

/// The queue on the cache line after the lock's.
#[cfg(feature = "lab")]
#[doc(hidden)]
#[repr(align(64))]
#[derive(Default)]
pub struct OwnLine(Inline);

#[cfg(feature = "lab")]
impl Deref for OwnLine {
    type Target = UnsafeCell<Queue>;
    #[inline(always)]
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

/// The pointer back to the table.
#[cfg(feature = "lab")]
#[doc(hidden)]
pub struct Priv(AtomicPtr<()>);

#[cfg(feature = "lab")]
impl Default for Priv {
    fn default() -> Self {
        Self(AtomicPtr::new(core::ptr::null_mut()))
    }
}

#[cfg(feature = "lab")]
impl Back for Priv {
    #[inline(always)]
    fn check(&self, table: *const ()) -> bool {
        core::ptr::eq(self.0.load(Ordering::Relaxed), table)
    }
    fn set(&self, table: *mut ()) {
        self.0.store(table, Ordering::Relaxed);
    }
}
