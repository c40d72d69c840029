//! Whether memory is flat: the heap, the tables and the resident set, early and late.

use std::fmt;

use ufutex::System;

use crate::heap;

/// The most that each was in a stretch of time, in bytes.
#[derive(Clone, Copy, Default)]
pub struct Most {
    heap: usize,
    tables: usize,
    resident: usize,
}

/// The largest table of a guest has 1024 slots of a cache line each, and while a guest moves to it there are two.
const TABLES_OF_A_GUEST: usize = 2 * 1024 * 64;
/// Beside tables, a worker has futures, waiters and timers in an amount that chance decides: less than this.
const OF_A_WORKER: usize = 8 << 10;
/// The allocator keeps freed memory for each thread, up to `M_TRIM_THRESHOLD`, and stacks are touched deeper in time.
const KEPT_FOR_A_THREAD: usize = (128 << 10) + (64 << 10);

impl Most {
    /// Looks once more.
    pub fn look(&mut self, system: &System) {
        self.heap = self.heap.max(usize::try_from(heap::live_bytes()).unwrap_or(0));
        self.tables = self.tables.max(system.table_bytes());
        self.resident = self.resident.max(resident_bytes());
    }

    /// Fails if there is more in `later` than chance explains.
    pub fn compare(&self, later: &Self, guests: usize, workers: usize) {
        let tables = guests * TABLES_OF_A_GUEST;
        let heap = tables + workers * OF_A_WORKER;
        for (name, early, late, bound) in [
            ("bytes of tables", self.tables, later.tables, tables),
            ("bytes of the heap", self.heap, later.heap, heap),
            ("bytes resident", self.resident, later.resident, heap + workers * KEPT_FOR_A_THREAD),
        ] {
            println!("{name}: {early} after the warm-up, {late} at the end; at most {bound} more are allowed");
            // A sanitizer keeps notes of its own about memory, which count as resident.
            if name == "bytes resident" && std::env::var_os("UFUTEX_SOAK_SANITIZED").is_some() {
                println!("{name}: not judged, since UFUTEX_SOAK_SANITIZED is set");
                continue;
            }
            assert!(late <= early + bound, "{name} grew from {early} to {late}, by more than {bound}");
        }
    }
}

impl fmt::Display for Most {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [heap, tables, resident] = [self.heap, self.tables, self.resident].map(|bytes| bytes >> 10);
        write!(f, "heap {heap} KiB, tables {tables} KiB, resident {resident} KiB")
    }
}

fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux has it");
    let pages: usize = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("the second number");
    // SAFETY: reads a constant of the host.
    pages * usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).expect("a size")
}
