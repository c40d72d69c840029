//! What the handles use of the standard library and the system. In their model, `crates/models/handles`, another file
//! stands in for this one.

use std::alloc::{Layout, alloc_zeroed, dealloc};

pub(crate) use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, compiler_fence, fence,
};
pub(crate) use std::thread_local;

use crate::mutants::Mutant;

/// The base-2 logarithm of the number of slots in the first chunk.
pub(crate) const FIRST_CHUNK_LOG2: u32 = 6;

/// Memory for `count` values, in which all bytes are 0. Null if there is none. The model makes each by `_new`.
///
/// # Safety
/// Bytes of 0 are a `T`, and equal to what `_new` returns. `count` and the size of a `T` are not 0.
pub(crate) unsafe fn chunk<T>(count: u32, _new: fn() -> T) -> *mut T {
    let Ok(layout) = Layout::array::<T>(count as usize) else { return core::ptr::null_mut() };
    // SAFETY: the layout's size is not 0, says the caller.
    unsafe { alloc_zeroed(layout) }.cast()
}

/// Frees what [`chunk`] has made.
///
/// # Safety
/// `chunk(count)` returned it, and no thread uses it.
pub(crate) unsafe fn free_chunk<T>(chunk: *mut T, count: u32) {
    if let Ok(layout) = Layout::array::<T>(count as usize) {
        // SAFETY: the caller guarantees it.
        unsafe { dealloc(chunk.cast(), layout) };
    }
}

/// The TID of the calling thread. Obtained by a system call, because signal handlers cannot use thread-local storage.
pub(crate) fn calling_thread() -> u32 {
    // SAFETY: gettid(2) reads and writes no memory of ours.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}

/// Always `false`: only models run with faults.
#[inline(always)]
pub(crate) const fn mutant(_mutant: Mutant) -> bool {
    false
}
