//! Starts the other CPUs.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Release};
use core::time::Duration;

use crate::cpu::{self, CPUS};
use crate::{clock, interrupts};

unsafe extern "C" {
    static ap_start: u8;
    static ap_end: u8;
}

/// Where a CPU can start in real mode: page 8.
const PAGE: usize = 8;

/// The CPU that starts next. `boot.s` reads it.
#[unsafe(no_mangle)]
static STARTING_CPU: AtomicU32 = AtomicU32::new(0);

/// The number of CPUs that run.
static RUNNING: AtomicU32 = AtomicU32::new(0);

/// Notes that the calling CPU runs.
pub fn is_up() {
    RUNNING.fetch_add(1, Release);
}

/// Starts all CPUs but the first, one by one, by the signals INIT, SIPI, SIPI.
pub fn start_others() {
    // SAFETY: the two labels are the ends of code, and nothing else is in that page.
    unsafe {
        let code = &raw const ap_start;
        let bytes = (&raw const ap_end).offset_from_unsigned(code);
        core::ptr::copy_nonoverlapping(code, (PAGE << 12) as *mut u8, bytes);
    }
    for cpu in 1..CPUS as u32 {
        STARTING_CPU.store(cpu, Release);
        for (command, milliseconds) in [(0x4500, 10), (0x4600 | PAGE as u32, 1), (0x4600 | PAGE as u32, 0)] {
            // Not a second SIPI where the first was enough: the CPU has its stack already.
            if RUNNING.load(Acquire) == cpu {
                cpu::section(|| interrupts::command(cpu as usize, command));
            }
            let until = clock::uptime() + Duration::from_millis(milliseconds);
            while clock::uptime() < until {}
        }
        while RUNNING.load(Acquire) == cpu {
            core::hint::spin_loop();
        }
    }
}
