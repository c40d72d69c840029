//! The heap. The engine allocates and frees also in sections and in interrupt handlers, so its lock is a spin lock.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::ptr::{self, NonNull};

use linked_list_allocator::Heap;

use crate::lock::Lock;

const BYTES: usize = 8 << 20;

struct Memory(UnsafeCell<[u8; BYTES]>);

// SAFETY: only the heap uses it.
unsafe impl Sync for Memory {}

static MEMORY: Memory = Memory(UnsafeCell::new([0; BYTES]));

struct Locked(Lock<Heap>);

#[global_allocator]
static HEAP: Locked = Locked(Lock::new(Heap::empty()));

/// Gives the heap its memory. Called once, before anything is allocated.
pub fn start() {
    // SAFETY: the memory is static, and nobody else's.
    unsafe { HEAP.0.lock().init(MEMORY.0.get().cast(), BYTES) };
}

// SAFETY: the heap hands out each piece once, and the lock keeps callers apart.
unsafe impl GlobalAlloc for Locked {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.0.lock().allocate_first_fit(layout).map_or(ptr::null_mut(), NonNull::as_ptr)
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if let Some(memory) = NonNull::new(memory) {
            // SAFETY: the caller passes what `alloc` has returned.
            unsafe { self.0.lock().deallocate(memory, layout) };
        }
    }
}
