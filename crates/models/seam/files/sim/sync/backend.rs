//! Virtual cores in virtual time. This is not a model checker: sizes, spinning and everything else are as the engine has
//! them.

pub use ufutex_coherence::atomic::{
    AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, UnsafeCell, fence, spin_loop,
};
pub use ufutex_coherence::objects;
