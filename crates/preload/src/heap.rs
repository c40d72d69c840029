//! Memory for the engine that is not the program's `malloc`: a handler may have interrupted that one, and it sleeps on
//! futexes, which are what we are here to serve.

use core::alloc::{GlobalAlloc, Layout};
use core::mem::MaybeUninit;
use core::ptr;

use crate::process::{Process, process};

struct Heap;

#[global_allocator]
static HEAP: Heap = Heap;

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
        // SAFETY: written above, or before.
        f(unsafe { heap.assume_init_mut() })
    }
}

// SAFETY: dlmalloc keeps the contract, and is used by one thread at a time. What was allocated before a fork is not in the
// child's heap; the child has no pointer to it and does not free it.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the layout is valid, says the trait.
        Self::with(|heap| unsafe { heap.malloc(layout.size(), layout.align()) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        Self::with(|heap| unsafe { heap.calloc(layout.size(), layout.align()) })
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        Self::with(|heap| {
            // SAFETY: allocated here with that layout, says the trait.
            unsafe { heap.free(block, layout.size(), layout.align()) };
            ptr::null_mut::<u8>()
        });
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: allocated here with that layout, says the trait.
        Self::with(|heap| unsafe { heap.realloc(block, layout.size(), layout.align(), size) })
    }
}
