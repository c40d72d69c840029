//! Stands in for the C interface's `sync.rs`: shuttle's atomics, locks and threads, and faults that a model switches on.
//! Shuttle is sequentially consistent, so the barriers order nothing here; litmus tests check those.

use std::cell::Cell;

pub(crate) use shuttle::sync::atomic::fence as compiler_fence;
pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
pub(crate) use shuttle::thread_local;

use crate::mutants::Mutant;

/// Chunks of one, two, four slots, so that a model makes several.
pub(crate) const FIRST_CHUNK_LOG2: u32 = 0;

/// Memory for `count` values that `new` makes.
///
/// # Safety
/// Always sound. The function of the C interface is not.
pub(crate) unsafe fn chunk<T>(count: u32, new: fn() -> T) -> *mut T {
    Box::leak((0..count).map(|_| new()).collect::<Box<[T]>>()).as_mut_ptr()
}

/// Frees what [`chunk`] has made.
///
/// # Safety
/// `chunk(count)` returned it, and no thread uses it.
pub(crate) unsafe fn free_chunk<T>(chunk: *mut T, count: u32) {
    // SAFETY: the caller guarantees it.
    drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(chunk, count as usize)) });
}

/// A number of the calling thread, not 0.
pub(crate) fn calling_thread() -> u32 {
    let id = format!("{:?}", shuttle::thread::current().id());
    id.chars().filter(char::is_ascii_digit).fold(1, |number, digit| number * 10 + (digit as u32 - '0' as u32))
}

std::thread_local! {
    // All threads of a model run on the thread that has started it.
    static MUTANT: Cell<Option<Mutant>> = const { Cell::new(None) };
}

/// Runs `f` with this fault.
pub fn with_mutant(mutant: Mutant, f: impl FnOnce()) {
    MUTANT.set(Some(mutant));
    f();
    MUTANT.set(None);
}

pub(crate) fn mutant(mutant: Mutant) -> bool {
    MUTANT.get() == Some(mutant)
}
