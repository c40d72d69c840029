//! The clock and the CPU, by the kernel's own code in the process: without a system call, which a filter makes slower still. libc's
//! functions may have been replaced by another library's.

use core::ffi::{CStr, c_int, c_void};
use core::mem;
use core::ptr;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::raw;

/// The address of `__vdso_clock_gettime`. 0: there is none.
static CLOCK: AtomicUsize = AtomicUsize::new(0);
/// The address of `__vdso_getcpu`. 0: there is none.
static CPU: AtomicUsize = AtomicUsize::new(0);

/// Finds the functions, before the program begins.
pub fn begin() {
    // SAFETY: reads the kernel's auxiliary vector.
    let vdso = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) };
    if vdso != 0 {
        for (function, name) in [(&CLOCK, c"__vdso_clock_gettime"), (&CPU, c"__vdso_getcpu")] {
            // SAFETY: the kernel has mapped a valid library there.
            function.store(unsafe { find(vdso as usize, name) }.unwrap_or(0), Ordering::Relaxed);
        }
    }
}

/// CLOCK_MONOTONIC.
pub fn clock_gettime(time: &mut libc::timespec) {
    let function = CLOCK.load(Ordering::Relaxed);
    if function != 0 {
        // SAFETY: the kernel's function of that name, which has this type.
        let function: extern "C" fn(libc::clockid_t, *mut libc::timespec) -> c_int =
            unsafe { mem::transmute(function) };
        if function(libc::CLOCK_MONOTONIC, time) == 0 {
            return;
        }
    }
    // SAFETY: stores into `time`.
    unsafe { raw::own(libc::SYS_clock_gettime, [libc::CLOCK_MONOTONIC as u64, ptr::from_mut(time) as u64]) };
}

/// The number of the CPU on which the thread runs.
pub fn getcpu() -> u32 {
    let mut cpu = 0;
    let function = CPU.load(Ordering::Relaxed);
    if function == 0 {
        // SAFETY: stores into `cpu`.
        unsafe { raw::own(libc::SYS_getcpu, [(&raw mut cpu) as u64, 0, 0]) };
    } else {
        // SAFETY: the kernel's function of that name, which has this type and stores into `cpu`.
        unsafe {
            let function: unsafe extern "C" fn(*mut u32, *mut u32, *mut c_void) -> c_int = mem::transmute(function);
            function(&raw mut cpu, ptr::null_mut(), ptr::null_mut());
        }
    }
    cpu
}

/// The address of a function of the library at `base`.
///
/// # Safety
/// A valid library for x86-64, which the kernel has made, is mapped there from its address 0 on.
unsafe fn find(base: usize, name: &CStr) -> Option<usize> {
    const DYNAMIC: u32 = 2;
    const HASH: u64 = 4;
    const STRINGS: u64 = 5;
    const SYMBOLS: u64 = 6;
    let at = |offset: usize| ptr::with_exposed_provenance::<u8>(base + offset);
    // SAFETY: the library's own headers, tables and strings.
    unsafe {
        let word = |offset: usize| at(offset).cast::<u64>().read_unaligned() as usize;
        let half = |offset: usize| at(offset).cast::<u32>().read_unaligned();
        let (headers, count) = (word(32), half(56) as usize & 0xffff);
        let header = (0..count).map(|i| headers + i * 56).find(|header| half(*header) == DYNAMIC)?;
        let dynamic = word(header + 16);
        let entry = |tag: u64| {
            let mut entries = (0..64).map(|i| dynamic + 16 * i).take_while(|entry| word(*entry) != 0);
            entries.find(|entry| word(*entry) as u64 == tag).map(|entry| word(entry + 8))
        };
        let (strings, symbols) = (entry(STRINGS)?, entry(SYMBOLS)?);
        // The hash table has as many chains as there are symbols.
        let count = half(entry(HASH)? + 4) as usize;
        let symbol = (0..count)
            .map(|i| symbols + 24 * i)
            .find(|symbol| CStr::from_ptr(at(strings + half(*symbol) as usize).cast()) == name)?;
        Some(base + word(symbol + 8))
    }
}
