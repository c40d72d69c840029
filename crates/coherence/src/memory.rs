//! An allocator that gives each run the same placement in cache lines, and tells the machine about new memory.
//!
//! The placement of an allocation depends on what the allocator did before, and two objects that share a line by chance
//! would change a result. So a binary that simulates has
//! `#[global_allocator] static ALLOCATOR: ufutex_coherence::memory::Allocator = ufutex_coherence::memory::Allocator;`
//! With it each allocation of a virtual thread begins a line of its own, and so does each allocation within
//! [`by_line`].

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;

use crate::current;
use crate::machine::LINE;

thread_local! {
    static BY_LINE: Cell<bool> = const { Cell::new(false) };
}

/// The C library's allocator, with a different alignment for allocations that belong to a simulation.
pub struct Allocator;

/// Makes objects for a simulation before it begins: each allocation begins a line of its own.
pub fn by_line<R>(make: impl FnOnce() -> R) -> R {
    struct Back(bool);
    impl Drop for Back {
        fn drop(&mut self) {
            BY_LINE.set(self.0);
        }
    }
    let _back = Back(BY_LINE.replace(true));
    make()
}

/// The alignment of `malloc` on every system that this runs on.
const MALLOC_ALIGN: usize = 16;

#[inline]
fn align(layout: Layout) -> usize {
    if BY_LINE.get() || current::is_simulated() { layout.align().max(LINE) } else { layout.align() }
}

// SAFETY: the memory is from `malloc` or `posix_memalign`, with the requested size and alignment. `free` takes both.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let align = align(layout);
        if align <= MALLOC_ALIGN {
            // SAFETY: malloc(3) has no preconditions.
            return unsafe { libc::malloc(layout.size()) }.cast();
        }
        let mut place = std::ptr::null_mut();
        // SAFETY: `align` is a power of two and a multiple of a pointer's size.
        let refused = unsafe { libc::posix_memalign(&raw mut place, align, layout.size().next_multiple_of(LINE)) };
        if refused != 0 {
            return std::ptr::null_mut();
        }
        let first = place.addr() / LINE;
        current::with(|machine| machine.renew_lines(first, first + layout.size().saturating_sub(1) / LINE));
        place.cast()
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if align(layout) <= MALLOC_ALIGN {
            // SAFETY: calloc(3) has no preconditions.
            return unsafe { libc::calloc(1, layout.size()) }.cast();
        }
        // SAFETY: the caller guarantees it.
        let place = unsafe { self.alloc(layout) };
        if !place.is_null() {
            // SAFETY: the memory is new and of this size.
            unsafe { place.write_bytes(0, layout.size()) };
        }
        place
    }

    #[inline]
    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // Memory that the machine itself frees has no names, and the machine may be changing the names right now.
        if current::is_counted() && layout.size() > 0 {
            crate::objects::forget(place.addr(), place.addr() + layout.size());
        }
        // SAFETY: the memory is from the C library.
        unsafe { libc::free(place.cast()) };
    }

    #[inline]
    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if align(layout) <= MALLOC_ALIGN {
            // SAFETY: the memory is from the C library, and `realloc` keeps the alignment that is needed here.
            return unsafe { libc::realloc(place.cast(), size) }.cast();
        }
        // SAFETY: the caller guarantees that the size is not 0 and does not overflow.
        let new = unsafe { self.alloc(Layout::from_size_align_unchecked(size, layout.align())) };
        if !new.is_null() {
            // SAFETY: both have this many bytes, and the old memory belongs to the caller.
            unsafe {
                new.copy_from_nonoverlapping(place, layout.size().min(size));
                self.dealloc(place, layout);
            }
        }
        new
    }
}
