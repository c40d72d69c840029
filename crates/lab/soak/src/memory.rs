//! What memory the process uses.

use anyhow::{Context, Result};
use std::fs;

/// The resident set may grow by this much from the end of the first tenth to the end of the run. The allocator keeps freed
/// memory for each thread, and how much depends on chance.
pub const RESIDENT_MORE: u64 = 16 << 20;
/// What may be left on the heap when everything has been dropped: what the standard library keeps for threads and output.
pub const HEAP_LEFT: u64 = 256 << 10;

/// The resident set, in bytes: `VmRSS`.
pub fn resident() -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status").context("/proc/self/status")?;
    let kib =
        status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next()?.parse::<u64>().ok());
    kib.map(|kib| kib << 10).context("/proc/self/status has no VmRSS")
}

/// The bytes that the C library's allocator has handed out. `None` if it does not say.
#[cfg(target_env = "gnu")]
pub fn heap() -> Option<u64> {
    // SAFETY: the call takes nothing, and returns numbers.
    let info = unsafe { libc::mallinfo2() };
    Some((info.uordblks + info.hblkhd) as u64)
}

/// The bytes that the C library's allocator has handed out. `None` if it does not say.
#[cfg(not(target_env = "gnu"))]
pub fn heap() -> Option<u64> {
    None
}
