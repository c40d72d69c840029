//! Allocates zeroed memory from the global allocator, without writing to it where the allocator can.
//!
//! For an alignment that malloc(3) does not give, the standard library's allocator writes zeroes to all of the memory, so
//! one operation would take all page faults of a large table. calloc(3) knows that fresh pages hold zeroes. So this asks
//! for a little more than it needs, of malloc's alignment, and returns the first address in it that is aligned.

use alloc::alloc::{alloc_zeroed, dealloc};
use core::alloc::Layout;

/// Smaller allocations take a page or two. They are left to `alloc_zeroed`.
const LARGE: usize = 4096;
/// The alignment of malloc(3).
const ALIGN: usize = 2 * size_of::<usize>();

/// What is allocated for `layout`, if that is not `layout` itself.
fn widened(layout: Layout) -> Option<Layout> {
    if layout.size() < LARGE || layout.align() <= ALIGN {
        return None;
    }
    Layout::from_size_align(layout.size().checked_add(layout.align())?, ALIGN).ok()
}

/// Zeroed memory of `layout`, whose size is not 0. Null if there is none. [`free`] takes it back.
pub fn allocate(layout: Layout) -> *mut u8 {
    let Some(wide) = widened(layout) else {
        // SAFETY: the layout's size is not 0.
        return unsafe { alloc_zeroed(layout) };
    };
    // SAFETY: the size is not 0.
    let begin = unsafe { alloc_zeroed(wide) };
    if begin.is_null() {
        return begin;
    }
    // `begin` has the alignment of two words. So the gap before the next aligned address behind it has room for one.
    let gap = layout.align() - (begin.addr() & (layout.align() - 1));
    // SAFETY: `wide` has a whole alignment more than `layout`, and the gap is no longer than that. It has room for a
    // word before its end, which is aligned for one.
    unsafe {
        let memory = begin.add(gap);
        memory.cast::<*mut u8>().sub(1).write(begin);
        memory
    }
}

/// # Safety
/// `memory` came from [`allocate`] with this `layout`, and is no longer used.
pub unsafe fn free(memory: *mut u8, layout: Layout) {
    match widened(layout) {
        // SAFETY: the caller guarantees it.
        None => unsafe { dealloc(memory, layout) },
        // SAFETY: the caller guarantees it; `allocate` has left where the memory begins in the word before it.
        Some(wide) => unsafe { dealloc(memory.cast::<*mut u8>().sub(1).read(), wide) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn memory_is_aligned_zeroed_and_apart() {
        for align in [1, 8, 16, 64, 128, 4096, 65536] {
            for size in [1, 64, LARGE - 1, LARGE, LARGE + 1, 131_072, 1 << 20] {
                let layout = Layout::from_size_align(size, align).unwrap();
                let some: Vec<*mut u8> = (0..3).map(|_| allocate(layout)).collect();
                for (number, &memory) in some.iter().enumerate() {
                    assert!(!memory.is_null() && memory.addr() % align == 0, "{layout:?}");
                    // SAFETY: memory of that size, which only this test uses.
                    let bytes = unsafe { core::slice::from_raw_parts_mut(memory, size) };
                    assert!(bytes.iter().all(|&byte| byte == 0), "{layout:?}, the {number}th");
                    bytes.fill(0xff);
                }
                // SAFETY: from `allocate` with this layout, and not used any more.
                some.into_iter().for_each(|memory| unsafe { free(memory, layout) });
            }
        }
    }

    #[test]
    fn sizes_that_cannot_be_are_refused() {
        let most = isize::MAX as usize & !63;
        // The compiler may leave out an allocation that nothing uses, and then it is not null.
        assert!(core::hint::black_box(allocate(Layout::from_size_align(most, 64).unwrap())).is_null());
    }
}
