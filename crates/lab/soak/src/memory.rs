//! What memory the process uses.

use crate::settings::beyond_few;
use anyhow::{Context, Result};
use std::fs;

/// The resident set may grow by this much from the end of the first tenth to the end of the run, and by
/// `RESIDENT_PER_THREAD` more for each thread beyond 64. The allocator keeps freed memory, and how much depends on chance.
const RESIDENT_MORE: u64 = 16 << 20;
/// About what a thread takes in all: its stack, which becomes resident as it is used, and its share of its shift, with tables.
/// From 16 to 64 threads each took 125 to 140 KiB. In runs of 3 s up to 34 KiB of them came after the first tenth, because many
/// threads had hardly run by then.
const RESIDENT_PER_THREAD: u64 = 128 << 10;
/// What may be left on the heap when everything has been dropped: what the standard library keeps for threads and output.
pub const HEAP_LEFT: u64 = 256 << 10;

/// By how much the resident set may grow after the first tenth of a run with `threads` threads.
pub fn resident_more(threads: usize) -> u64 {
    RESIDENT_MORE + RESIDENT_PER_THREAD * beyond_few(threads) as u64
}

/// The resident set, in bytes: `VmRSS`.
pub fn resident() -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status").context("/proc/self/status")?;
    let kib =
        status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next()?.parse::<u64>().ok());
    kib.map(|kib| kib << 10).context("/proc/self/status has no VmRSS")
}

/// Keeps glibc from making an arena for each thread, up to eight for each CPU. What describes an arena, some 2 KB, counts
/// as handed out for ever.
pub fn bound_arenas() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the call takes numbers.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 16)
    };
}

/// The bytes that the C library's allocator has handed out. `None` if it does not say, as glibc before 2.33.
#[cfg(target_env = "gnu")]
pub fn heap() -> Option<u64> {
    type Mallinfo2 = extern "C" fn() -> libc::mallinfo2;
    // SAFETY: the name ends with a null byte.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"mallinfo2".as_ptr()) };
    // SAFETY: null, or glibc's function, which is of this type.
    let call = unsafe { std::mem::transmute::<*mut libc::c_void, Option<Mallinfo2>>(found) }?;
    let info = call();
    Some((info.uordblks + info.hblkhd) as u64)
}

/// The bytes that the C library's allocator has handed out. `None` if it does not say.
#[cfg(not(target_env = "gnu"))]
pub fn heap() -> Option<u64> {
    None
}
