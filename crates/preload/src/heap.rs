//! Memory for the engine that does not come from the program's `malloc`. A handler may have interrupted `malloc`, and
//! `malloc` itself sleeps on futexes, which the engine serves.

use core::alloc::{GlobalAlloc, Layout};
use core::mem::MaybeUninit;
use core::ptr;

use crate::process::{Process, process};

pub struct Heap;

#[global_allocator]
pub static HEAP: Heap = Heap;

impl Heap {
    fn with<R>(f: impl FnOnce(&mut dlmalloc::Dlmalloc) -> *mut R) -> *mut R {
        let Some(Process { heap_lock, heap_is_there, heap, .. }) = process() else {
            return ptr::null_mut();
        };
        let _locked = heap_lock.lock();
        // SAFETY: both are guarded by the lock that we hold.
        let (is_there, heap) = unsafe { (&mut *heap_is_there.get(), &mut *heap.get()) };
        if !*is_there {
            *heap = MaybeUninit::new(dlmalloc::Dlmalloc::new());
            *is_there = true;
        }
        // SAFETY: initialised above, or before.
        f(unsafe { heap.assume_init_mut() })
    }
}

// SAFETY: dlmalloc fulfils the contract, and is used by one thread at a time. Memory that was allocated before a fork
// is not in the child's heap; the child has no pointer to it and does not free it.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the trait guarantees that the layout is valid.
        Self::with(|heap| unsafe { heap.malloc(layout.size(), layout.align()) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        Self::with(|heap| unsafe { heap.calloc(layout.size(), layout.align()) })
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        Self::with(|heap| {
            // SAFETY: the trait guarantees that it was allocated here with that layout.
            unsafe { heap.free(block, layout.size(), layout.align()) };
            ptr::null_mut::<u8>()
        });
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the trait guarantees that it was allocated here with that layout.
        Self::with(|heap| unsafe { heap.realloc(block, layout.size(), layout.align(), size) })
    }
}
