//! Allocates zeroed memory from the global allocator, without writing to it where the allocator can.
//!
//! For an alignment that malloc(3) does not give, the standard library writes all the zeroes, and one operation would take all
//! page faults of a large table. calloc(3) does not. So this asks it for a little more, and aligns the address.

use alloc::alloc::{alloc_zeroed, dealloc};
use core::alloc::Layout;

/// Smaller allocations take a page or two, and are left to `alloc_zeroed`.
const LARGE: usize = 4096;
/// Of malloc(3).
const ALIGN: usize = 2 * size_of::<usize>();

/// What is allocated for `layout`; `None` if that is `layout` itself.
fn widened(layout: Layout) -> Option<Layout> {
    if layout.size() < LARGE || layout.align() <= ALIGN {
        return None;
    }
    Layout::from_size_align(layout.size().checked_add(layout.align())?, ALIGN).ok()
}

/// Zeroed memory of `layout`, whose size is not 0. Null if there is none.
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
    // `begin` is aligned to two words, so the gap before the next aligned address behind it has room for one.
    let gap = layout.align() - (begin.addr() & (layout.align() - 1));
    // SAFETY: `wide` is longer than `layout` by an alignment, which the gap does not exceed. It ends with an aligned word.
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
        // SAFETY: the caller guarantees it; `allocate` has left the begin of the memory in the word before.
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
        // The compiler may leave out an allocation that nothing uses: then it is not null.
        assert!(core::hint::black_box(allocate(Layout::from_size_align(most, 64).unwrap())).is_null());
    }
}
