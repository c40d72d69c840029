//! What the handles use of the standard library and the system. In their model, `crates/models/handles`, another file
//! stands in for this one.

pub(crate) use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, compiler_fence, fence,
};
pub(crate) use std::sync::{Mutex, MutexGuard, PoisonError};
pub(crate) use std::thread_local;

use crate::mutants::Mutant;

/// The slots of the first chunk, by their logarithm.
pub(crate) const FIRST_CHUNK_LOG2: u32 = 6;

/// The TID of the calling thread. Obtained by a system call, because signal handlers cannot use thread-local storage.
pub(crate) fn calling_thread() -> u32 {
    // SAFETY: gettid(2) reads and writes no memory of ours.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}

/// Whether the model runs with this fault.
#[inline(always)]
pub(crate) const fn mutant(_mutant: Mutant) -> bool {
    false
}
