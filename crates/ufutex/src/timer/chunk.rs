//! Chunks: the memory of timers, in which the part that look-ups read is apart from the cold part.
//!
//! A look-up reads a word and perhaps a lock, which are in a quarter of the timer. These quarters lie side by side, two
//! to a cache line, so that more timers fit into a CPU's cache.

use alloc::alloc::{Layout, alloc, dealloc};
use core::ptr::{self, NonNull};

use super::entry::{ColdPart, Timer};
use crate::expiry::wheel::WheelNode;

/// The number of timers in a chunk. With its header they fill 8 KiB.
pub const TIMERS: usize = 63;

/// The header of a chunk. The timers follow it.
#[repr(C, align(64))]
pub struct Chunk {
    /// The owner's next chunk.
    pub next: *mut Chunk,
    /// The memory that the allocator returned.
    memory: NonNull<u8>,
}

/// The size of a chunk. `LAYOUT` is larger, and the chunk begins at the first cache line in it: allocators take longer
/// if they are asked for that alignment.
const SIZE: usize = COLD + TIMERS * size_of::<ColdPart>();
const LAYOUT: Layout = match Layout::from_size_align(SIZE + align_of::<Chunk>() - ALIGN, ALIGN) {
    Ok(layout) => layout,
    Err(_) => panic!("a chunk fits into memory"),
};
const ALIGN: usize = 2 * size_of::<usize>();
/// Where the timers begin, and where the cold part of each begins.
const FIRST: usize = size_of::<Chunk>();
const COLD: usize = (FIRST + TIMERS * size_of::<Timer>()).next_multiple_of(align_of::<ColdPart>());

const _: () = assert!(align_of::<Chunk>() >= align_of::<Timer>() && align_of::<Chunk>() >= align_of::<ColdPart>());
#[cfg(target_pointer_width = "64")]
const _: () = assert!(LAYOUT.size() == 8176);

/// Makes a chunk of timers. No thread can find them. They are free, and linked in memory order; the last links to none.
pub fn make() -> Option<NonNull<Chunk>> {
    // SAFETY: the size of the layout is not zero.
    let memory = NonNull::new(unsafe { alloc(LAYOUT) })?;
    // SAFETY: within the new memory, which has room for `TIMERS` timers from its first cache line on.
    unsafe {
        let chunk = memory.byte_add(memory.align_offset(align_of::<Chunk>())).cast::<Chunk>();
        chunk.write(Chunk { next: ptr::null_mut(), memory });
        let cold = |index| chunk.byte_add(COLD).cast::<ColdPart>().add(index);
        // In memory order, in which a CPU fetches ahead.
        for index in 0..TIMERS {
            timer(chunk, index).write(Timer::new(cold(index)));
        }
        for index in 0..TIMERS {
            let next = if index + 1 < TIMERS { timer(chunk, index + 1).as_ptr() } else { ptr::null_mut() };
            ColdPart::make(cold(index), index as u16, next);
        }
        Some(chunk)
    }
}

/// Frees a chunk.
///
/// # Safety
/// [`make`] made the chunk, and no thread uses its timers any more.
pub unsafe fn free(chunk: NonNull<Chunk>) {
    // SAFETY: the caller guarantees it.
    unsafe {
        for index in 0..TIMERS {
            timer(chunk, index).drop_in_place();
            chunk.byte_add(COLD).cast::<ColdPart>().add(index).drop_in_place();
        }
        dealloc(chunk.as_ref().memory.as_ptr(), LAYOUT);
    }
}

/// The timer with this index.
///
/// # Safety
/// The index is less than `TIMERS`.
pub unsafe fn timer(chunk: NonNull<Chunk>, index: usize) -> NonNull<Timer> {
    // SAFETY: within the chunk.
    unsafe { chunk.byte_add(FIRST).cast::<Timer>().add(index) }
}

/// The timer that a node belongs to.
///
/// # Safety
/// `node` is the node of a [`ColdPart`] in a chunk, and the pointer comes from its timer.
pub unsafe fn timer_of(node: *mut WheelNode) -> NonNull<Timer> {
    // SAFETY: the node is the first field of its timer's cold part, and holds the timer's index. The pointer may be
    // used for the whole chunk.
    unsafe {
        let index = usize::from((*node).index);
        let cold = NonNull::new_unchecked(node).cast::<ColdPart>();
        timer(cold.sub(index).byte_sub(COLD).cast::<Chunk>(), index)
    }
}

/// The memory that a chunk takes, in bytes.
pub const BYTES: usize = LAYOUT.size();
