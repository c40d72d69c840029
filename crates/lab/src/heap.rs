//! This program's memory: what a simulation needs of an allocator, and an end in one line where there is none left. The standard
//! library would abort, with a backtrace if the environment asks for one.

use std::alloc::{GlobalAlloc, Layout};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use ufutex_coherence::memory::Allocator;

/// `sim` needs to know where lines begin; everything else gets the C library's.
pub struct Heap;

// SAFETY: all of it is the inner allocator's, but that no null pointer comes back.
unsafe impl GlobalAlloc for Heap {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller says.
        there(unsafe { Allocator.alloc(layout) }, layout.size())
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller says.
        there(unsafe { Allocator.alloc_zeroed(layout) }, layout.size())
    }

    #[inline]
    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: as the caller says.
        unsafe { Allocator.dealloc(place, layout) };
    }

    #[inline]
    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as the caller says.
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
        // Another thread is at it: one line is enough.
        // SAFETY: the call takes nothing; the process's end ends it.
        unsafe { libc::pause() };
    }
    let mut line = [0; 80];
    let room = line.len();
    let mut rest = &mut line[..];
    let _ = writeln!(rest, "ufutex: the system has no {bytes} bytes of memory left for it");
    let length = room - rest.len();
    // SAFETY: bytes of an array that lives here. Nothing of this program is run any more: a lock may be held, and there is no
    // memory for whatever it would do.
    unsafe {
        libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), length);
        libc::_exit(crate::EXIT_FAILURE.into())
    }
}
