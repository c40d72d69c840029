//! A global allocator that counts the allocated bytes.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicIsize, Ordering::Relaxed};

struct Counting;

#[global_allocator]
static HEAP: Counting = Counting;

static LIVE: AtomicIsize = AtomicIsize::new(0);

/// Bytes that are currently allocated.
pub fn live_bytes() -> isize {
    LIVE.load(Relaxed)
}

// SAFETY: forwards every call to the system's allocator and only counts.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size() as isize, Relaxed);
        // SAFETY: the caller meets the requirements of the same function.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size() as isize, Relaxed);
        // SAFETY: the caller meets the requirements of the same function.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size() as isize, Relaxed);
        // SAFETY: the caller meets the requirements of the same function.
        unsafe { System.alloc_zeroed(layout) }
    }
}
