//! The only file that names where atomics come from: `std`, or the coherence model.

pub use std::hint::spin_loop;
pub use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
pub use std::thread::yield_now;
