//! Atomics, cells and fences: `core`'s, or those of a model.

pub use atomics::*;

#[cfg(not(any(feature = "loom", feature = "shuttle", feature = "sim")))]
mod atomics {
    pub use core::hint::spin_loop;
    pub use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

    /// A cell that is guarded by a lock elsewhere. Every access is a closure, so a model checker knows when the access
    /// begins and ends, and can check for races.
    #[repr(transparent)]
    #[derive(Default)]
    pub struct UnsafeCell<T>(core::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub const fn new(value: T) -> Self {
            Self(core::cell::UnsafeCell::new(value))
        }
        #[inline(always)]
        pub fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
            read(self.0.get())
        }
        #[inline(always)]
        pub fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
            write(self.0.get())
        }
    }
}

#[cfg(feature = "loom")]
mod atomics {
    pub use loom::cell::UnsafeCell;
    pub use loom::sync::atomic::{AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
    pub use loom::sync::{Condvar, Mutex};

    /// The number of spins of one thread after which loom explores no other choices for the rest of an execution.
    const MOST_SPINS: u32 = 8;

    /// Lets other threads run. If two threads spin until a third has made progress, they may take turns for ever while
    /// that thread does not run. Loom would explore each such execution until its limit of branches. A spin changes
    /// nothing. So what may follow it is also explored after fewer spins, and the rest of an execution with many spins
    /// just runs to its end.
    pub fn spin_loop() {
        loom::thread_local! {
            static SPINS: core::cell::Cell<u32> = core::cell::Cell::new(0);
        }
        let spins = SPINS.with(|spins| spins.replace(spins.get() + 1));
        if spins >= MOST_SPINS {
            loom::skip_branch();
        }
        loom::hint::spin_loop();
    }
}

#[cfg(all(feature = "shuttle", not(feature = "loom")))]
mod atomics {
    pub use shuttle::hint::spin_loop;
    pub use shuttle::sync::atomic::{
        AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
    pub use shuttle::sync::{Condvar, Mutex};

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
}

/// Virtual cores in virtual time. This is not a model checker: sizes, spinning and everything else are as in a normal
/// build.
#[cfg(feature = "sim")]
mod atomics {
    pub use ufutex_coherence::atomic::{
        AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, UnsafeCell, fence, spin_loop,
    };
    pub use ufutex_coherence::objects;
}
