//! The serial line, the end of the machine, and what a panic does.

use core::fmt::{self, Write};
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use x86_64::instructions::{hlt, interrupts, port::Port};

use crate::lock::Lock;
use crate::scheduler;

/// The first serial line, which QEMU connects with its standard output.
pub struct Serial;

impl Write for Serial {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut data = Port::<u8>::new(0x3f8);
        for byte in text.bytes() {
            // SAFETY: it prints. QEMU's line is always ready.
            unsafe { data.write(byte) };
        }
        Ok(())
    }
}

/// Lets each line be printed in one piece.
static CONSOLE: Lock<Serial> = Lock::new(Serial);

pub fn print(line: fmt::Arguments<'_>) {
    // The serial line refuses nothing.
    let _ = writeln!(CONSOLE.lock(), "{line}");
}

#[macro_export]
macro_rules! say {
    ($($arguments:tt)*) => { $crate::console::print(format_args!($($arguments)*)) };
}

/// Switches the machine off.
pub fn power_off(is_right: bool) -> ! {
    // `run` knows these two numbers.
    // SAFETY: the device does nothing but end QEMU.
    unsafe { Port::<u32>::new(0xf4).write(if is_right { 0x10 } else { 0x20 }) };
    loop {
        hlt();
    }
}

/// Prints without locks, which the thread that panics may hold.
#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    interrupts::disable();
    static HAS_PANICKED: AtomicBool = AtomicBool::new(false);
    while HAS_PANICKED.swap(true, Relaxed) {
        hlt(); // another CPU prints, and powers off
    }
    let _ = writeln!(Serial, "\nFAILED: {info}");
    scheduler::print_threads();
    power_off(false);
}
