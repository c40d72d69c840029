//! The global allocator. It aligns what a simulation needs aligned. If no memory is left it ends the process with one line,
//! where the standard library would abort, possibly with a backtrace.

use std::alloc::{GlobalAlloc, Layout};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use ufutex_coherence::memory::Allocator;

/// In a simulation, `ufutex_coherence`'s allocator, which knows where cache lines begin. Otherwise the C library's.
pub struct Heap;

// SAFETY: all calls go to the inner allocator. The only difference is that no null pointer is returned.
unsafe impl GlobalAlloc for Heap {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of this function, which is the inner one's.
        there(unsafe { Allocator.alloc(layout) }, layout.size())
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of this function, which is the inner one's.
        there(unsafe { Allocator.alloc_zeroed(layout) }, layout.size())
    }

    #[inline]
    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of this function, which is the inner one's.
        unsafe { Allocator.dealloc(place, layout) };
    }

    #[inline]
    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller keeps the contract of this function, which is the inner one's.
        there(unsafe { Allocator.realloc(place, layout, size) }, size)
    }
}

#[inline]
fn there(place: *mut u8, bytes: usize) -> *mut u8 {
    if place.is_null() && bytes > 0 {
        end(bytes);
    }
    place
}

#[cold]
fn end(bytes: usize) -> ! {
    static ENDS: AtomicBool = AtomicBool::new(false);
    while ENDS.swap(true, Ordering::Relaxed) {
        // Another thread writes the line and ends the process.
        // SAFETY: the call takes no arguments and blocks until the process ends.
        unsafe { libc::pause() };
    }
    let mut line = [0; 80];
    let room = line.len();
    let mut rest = &mut line[..];
    let _ = writeln!(rest, "ufutex: out of memory: cannot allocate {bytes} bytes");
    let length = room - rest.len();
    // SAFETY: the bytes are in a live array. `_exit` runs none of this program's exit handlers: a lock may be held, and they
    // would find no memory.
    unsafe {
        libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), length);
        libc::_exit(crate::EXIT_FAILURE.into())
    }
}
