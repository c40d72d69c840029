//! A kernel with two CPUs whose guests' futexes are ufutex: see README.md.

#![no_std]
#![no_main]

extern crate alloc;

mod checks;
mod clock;
mod console;
mod cpu;
mod guest;
mod heap;
mod interrupts;
mod lock;
mod platform;
mod scheduler;
mod smp;

use core::arch::global_asm;

use ufutex::pi::Priority;
use x86_64::instructions::interrupts::enable_and_hlt;

global_asm!(include_str!("boot.s"), options(att_syntax));

/// Where each CPU begins, with interrupts disabled. What is left of this call is the CPU's idle thread.
#[unsafe(no_mangle)]
extern "sysv64" fn start_cpu(index: u32) -> ! {
    let index = index as usize;
    cpu::start(index);
    if index == 0 {
        heap::start();
        clock::start();
        interrupts::start();
    }
    scheduler::start_cpu(index);
    interrupts::start_cpu();
    smp::is_up();
    if index == 0 {
        smp::start_others();
        scheduler::spawn(Priority::realtime(99), checks::run);
    }
    loop {
        // What is to be done is done in interrupts: they switch to other threads.
        enable_and_hlt();
    }
}
