//! How a bucket is laid out in cache lines.
//!
//! There is one layout: 64 bytes, the queue on the line of its lock, no pointer back to the table. Two others exist
//! only to be compared with it. They are features of packages in `crates/models`, which compile this same source. So
//! no layout costs another anything, and no type of the crate has to name one.
//!
//! - `packed`: 64 bytes with a pointer back to the table, which every operation reads before it locks. It was the
//!   kernel's layout until 7.2.
//! - `split`: 128 bytes, with the queue on a line of its own.

#[cfg(not(feature = "packed"))]
pub use self::left_out::Back;
#[cfg(feature = "split")]
pub use self::own_line::QueueCell;
#[cfg(feature = "packed")]
pub use self::there::Back;

#[cfg(not(feature = "split"))]
use super::list::Queue;
#[cfg(not(feature = "split"))]
use crate::sync::UnsafeCell;

/// The layout's name, and the size of a bucket in bytes.
pub const NAME_AND_BYTES: (&str, usize) = match (cfg!(feature = "packed"), cfg!(feature = "split")) {
    (false, false) => ("lean", 64),
    (true, false) => ("packed", 64),
    (false, true) => ("split", 128),
    (true, true) => panic!("a bucket has one layout: choose `packed` or `split`"),
};

/// The queue, on the cache line of its lock.
#[cfg(not(feature = "split"))]
pub type QueueCell = UnsafeCell<Queue>;

#[cfg(feature = "split")]
mod own_line {
    use core::ops::Deref;

    use crate::sync::UnsafeCell;
    use crate::table::list::Queue;

    /// The queue, on the cache line after that of its lock.
    #[repr(align(64))]
    pub struct QueueCell(UnsafeCell<Queue>);

    impl QueueCell {
        pub fn new(queue: Queue) -> Self {
            Self(UnsafeCell::new(queue))
        }
    }

    impl Deref for QueueCell {
        type Target = UnsafeCell<Queue>;
        #[inline(always)]
        fn deref(&self) -> &Self::Target {
            &self.0
        }
    }
}

#[cfg(not(feature = "packed"))]
mod left_out {
    /// No pointer back to the table.
    pub struct Back;

    impl Back {
        /// Whether there is such a pointer.
        pub const IS_THERE: bool = false;

        pub fn new() -> Self {
            Self
        }

        /// Always `true`: there is nothing to read.
        #[inline(always)]
        pub fn check(&self, _table: *const ()) -> bool {
            true
        }

        pub fn set(&self, _table: *mut ()) {}
    }
}

#[cfg(feature = "packed")]
mod there {
    use crate::sync::{AtomicPtr, Ordering};

    /// A bucket's pointer back to its table.
    pub struct Back(AtomicPtr<()>);

    impl Back {
        /// Whether there is such a pointer.
        pub const IS_THERE: bool = true;

        pub fn new() -> Self {
            Self(AtomicPtr::new(core::ptr::null_mut()))
        }

        /// Reads the pointer, as an operation does before it locks the bucket. Returns whether it points to `table`.
        #[inline(always)]
        pub fn check(&self, table: *const ()) -> bool {
            core::ptr::eq(self.0.load(Ordering::Relaxed), table)
        }

        /// Sets the pointer, when the table is made.
        pub fn set(&self, table: *mut ()) {
            self.0.store(table, Ordering::Relaxed);
        }
    }
}
