//! The only file that names the source of the atomics: `std`, or the coherence model.

#[cfg(not(feature = "sim"))]
mod backend {
    pub use std::hint::spin_loop;
    pub use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
    pub use std::thread::yield_now;
}

#[cfg(feature = "sim")]
mod backend {
    pub use ufutex_coherence::atomic::{
        AtomicI32, AtomicI64, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, spin_loop,
    };
}

pub use backend::*;
