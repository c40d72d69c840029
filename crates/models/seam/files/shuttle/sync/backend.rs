//! Shuttle's atomics.

pub use shuttle::hint::spin_loop;
pub use shuttle::sync::atomic::{
    AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
pub use shuttle::sync::{Condvar, Mutex};
pub use shuttle::thread_local;

/// A plain cell: shuttle runs one thread at a time, and does not check cells.
pub struct UnsafeCell<T>(core::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    pub fn new(value: T) -> Self {
        Self(core::cell::UnsafeCell::new(value))
    }
    pub fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        read(self.0.get())
    }
    pub fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }
}
