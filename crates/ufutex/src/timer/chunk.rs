//! Timers as they lie in memory: what look-ups touch is apart from the rest.
//!
//! A look-up reads a word and perhaps a lock, a quarter of a timer. Side by side these are two to a line, and as many
//! timers fit into a CPU's cache.

use alloc::alloc::{Layout, alloc, dealloc};
use core::ptr::NonNull;

use super::entry::{Rest, Timer};
use crate::expiry::wheel::Node;
use crate::sync::MODEL;

/// Timers of a chunk: with what precedes them they fill 8 KiB.
pub const TIMERS: usize = if MODEL { 2 } else { 63 };

/// So many timers, and what precedes them.
#[repr(C, align(64))]
pub struct Chunk {
    /// For the owner: another one.
    pub next: *mut Chunk,
    /// So many of its timers are there, from the first on.
    pub timers: usize,
    /// What the allocator gave.
    memory: NonNull<u8>,
}

/// Its size, and that of the memory in which it finds a line to begin at: allocators take longer if asked for one.
const SIZE: usize = REST + TIMERS * size_of::<Rest>();
const LAYOUT: Layout = match Layout::from_size_align(SIZE + align_of::<Chunk>() - ALIGN, ALIGN) {
    Ok(layout) => layout,
    Err(_) => panic!("a chunk fits into memory"),
};
const ALIGN: usize = 2 * size_of::<usize>();
/// Where the timers begin, and the rest of each.
const FIRST: usize = size_of::<Chunk>();
const REST: usize = (FIRST + TIMERS * size_of::<Timer>()).next_multiple_of(align_of::<Rest>());

const _: () = assert!(align_of::<Chunk>() >= align_of::<Timer>() && align_of::<Chunk>() >= align_of::<Rest>());
#[cfg(not(any(feature = "loom", feature = "shuttle")))]
const _: () = assert!(LAYOUT.size() == 8176);

/// Memory with so many timers, `TIMERS` at most and at least one, that nobody can find. They are free and linked in the
/// order in which they lie, `free` behind them.
pub fn make(timers: usize, next: *mut Chunk, free: *mut Timer) -> Option<NonNull<Chunk>> {
    // SAFETY: the layout has a size.
    let memory = NonNull::new(unsafe { alloc(LAYOUT) })?;
    // SAFETY: within the fresh memory, which has room for `TIMERS` from its first line on.
    unsafe {
        let chunk = memory.byte_add(memory.align_offset(align_of::<Chunk>())).cast::<Chunk>();
        chunk.write(Chunk { next, timers, memory });
        let rest = |index| chunk.byte_add(REST).cast::<Rest>().add(index);
        // In the order of memory, which a CPU fetches ahead.
        for index in 0..timers {
            timer(chunk, index).write(Timer::new(rest(index)));
        }
        for index in 0..timers {
            let next = if index + 1 < timers { timer(chunk, index + 1).as_ptr() } else { free };
            Rest::make(rest(index), index as u16, next);
        }
        Some(chunk)
    }
}

/// Frees a chunk.
///
/// # Safety
/// It was made by [`make`], and nobody uses its timers any more.
pub unsafe fn free(chunk: NonNull<Chunk>) {
    // SAFETY: the caller guarantees it.
    unsafe {
        for index in 0..chunk.as_ref().timers {
            timer(chunk, index).drop_in_place();
            chunk.byte_add(REST).cast::<Rest>().add(index).drop_in_place();
        }
        dealloc(chunk.as_ref().memory.as_ptr(), LAYOUT);
    }
}

/// The timer with this index.
///
/// # Safety
/// It is less than `TIMERS`.
pub unsafe fn timer(chunk: NonNull<Chunk>, index: usize) -> NonNull<Timer> {
    // SAFETY: within the chunk.
    unsafe { chunk.byte_add(FIRST).cast::<Timer>().add(index) }
}

/// The timer whose node this is.
///
/// # Safety
/// It is the node of a [`Rest`] in a chunk, from the pointer that its timer has.
pub unsafe fn timer_of(node: *mut Node) -> NonNull<Timer> {
    // SAFETY: the node comes first in the rest of its timer, and has its index; the pointer is good for the whole chunk.
    unsafe {
        let index = usize::from((*node).index);
        let rest = NonNull::new_unchecked(node).cast::<Rest>();
        timer(rest.sub(index).byte_sub(REST).cast::<Chunk>(), index)
    }
}

/// What a chunk takes, in bytes.
pub const BYTES: usize = LAYOUT.size();
