//! Checks that memory does not grow: compares the heap, the tables and the resident set early and late in the run.

use std::fmt;

use ufutex::System;

use crate::heap;

/// Maximum values during a period, in bytes.
#[derive(Clone, Copy, Default)]
pub struct Most {
    heap: usize,
    tables: usize,
    resident: usize,
}

/// The largest table of a guest has 1024 slots of one cache line. During a resize there are two tables.
const TABLES_OF_A_GUEST: usize = 2 * 1024 * 64;
/// Upper bound for the futures, waiters and timers of a worker, whose number is random.
const OF_A_WORKER: usize = 8 << 10;
/// The allocator keeps up to `M_TRIM_THRESHOLD` of freed memory for each thread, and stacks reach new depths over time.
const KEPT_FOR_A_THREAD: usize = (128 << 10) + (64 << 10);

impl Most {
    /// Takes a sample.
    pub fn look(&mut self, system: &System) {
        self.heap = self.heap.max(usize::try_from(heap::live_bytes()).unwrap_or(0));
        self.tables = self.tables.max(system.table_bytes());
        self.resident = self.resident.max(resident_bytes());
    }

    /// Fails if `later` exceeds `self` by more than random variation.
    pub fn compare(&self, later: &Self, guests: usize, workers: usize) {
        let tables = guests * TABLES_OF_A_GUEST;
        let heap = tables + workers * OF_A_WORKER;
        for (name, early, late, bound) in [
            ("bytes of tables", self.tables, later.tables, tables),
            ("bytes of the heap", self.heap, later.heap, heap),
            ("bytes resident", self.resident, later.resident, heap + workers * KEPT_FOR_A_THREAD),
        ] {
            println!("{name}: {early} after the warm-up, {late} at the end; at most {bound} more are allowed");
            // The shadow memory of a sanitizer counts as resident.
            if name == "bytes resident" && std::env::var_os("UFUTEX_SANITIZED").is_some() {
                println!("{name}: not judged, since UFUTEX_SANITIZED is set");
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
