//! The local interrupt controllers: ticks, kicks from CPU to CPU, a device. And exceptions, which end the kernel.

use core::arch::naked_asm;

use x86_64::VirtAddr;
use x86_64::instructions::port::Port;
use x86_64::structures::idt::InterruptDescriptorTable;

use crate::lock::Lock;
use crate::{checks, scheduler};

const APIC: usize = 0xfee0_0000;
const END_OF_INTERRUPT: usize = 0xb0;
const SPURIOUS: usize = 0xf0;
const COMMAND: usize = 0x300;
const COMMAND_CPU: usize = 0x310;
const TIMER: usize = 0x320;
const TIMER_COUNT: usize = 0x380;
const TIMER_DIVISOR: usize = 0x3e0;

/// About a millisecond on QEMU, whose timer counts nanoseconds. Nothing depends on it: the time is the HPET's.
const TICK_COUNT: u32 = 1_000_000;

const TICK: u8 = 0x40;
/// Has a CPU choose again which thread it runs.
pub const KICK: u8 = 0x41;
/// The device of `checks/interrupt.rs`.
pub const DEVICE: u8 = 0x42;

fn write(register: usize, value: u32) {
    // SAFETY: a register of the calling CPU's interrupt controller, which the page tables map.
    unsafe { ((APIC + register) as *mut u32).write_volatile(value) };
}

/// Sends an interrupt to a CPU, perhaps the calling one. Called in a section: the command is two registers.
pub fn send(cpu: usize, vector: u8) {
    command(cpu, u32::from(vector));
}

/// Writes a command for a CPU, as [`send`] does.
pub fn command(cpu: usize, command: u32) {
    write(COMMAND_CPU, (cpu as u32) << 24);
    write(COMMAND, command);
}

static TABLE: Lock<InterruptDescriptorTable> = Lock::new(InterruptDescriptorTable::new());

/// Fills the table that all CPUs use, and masks the old controller. Called once.
pub fn start() {
    let mut guard = TABLE.lock();
    let table = &mut *guard;
    let at = |handler: extern "sysv64" fn()| VirtAddr::new(handler as usize as u64);
    // SAFETY: each handler ends as its vector demands: with `iretq`, or never.
    unsafe {
        table.divide_error.set_handler_addr(at(exception::<0>));
        table.invalid_opcode.set_handler_addr(at(exception::<6>));
        table.double_fault.set_handler_addr(at(exception::<8>));
        table.general_protection_fault.set_handler_addr(at(exception::<13>));
        table.page_fault.set_handler_addr(at(exception::<14>));
        table[TICK].set_handler_addr(at(tick_entry));
        table[KICK].set_handler_addr(at(kick_entry));
        table[DEVICE].set_handler_addr(at(device_entry));
        table[0xff].set_handler_addr(at(spurious_entry));
        Port::<u8>::new(0x21).write(0xff);
        Port::<u8>::new(0xa1).write(0xff);
    }
}

/// Starts the calling CPU's controller, and its ticks.
pub fn start_cpu() {
    // SAFETY: `start` has filled the table, which is static, and which nobody changes any more.
    unsafe { TABLE.lock().load_unsafe() };
    write(SPURIOUS, 0x1ff);
    write(TIMER_DIVISOR, 0b1011); // by 1
    write(TIMER, u32::from(TICK));
    write(TIMER_COUNT, TICK_COUNT);
}

extern "sysv64" fn tick() {
    // The timer fires once, and is armed anew here. So ticks leave time for threads, however slow the host is.
    write(TIMER_COUNT, TICK_COUNT);
    write(END_OF_INTERRUPT, 0);
    checks::on_tick();
    scheduler::on_tick();
}

extern "sysv64" fn kick() {
    write(END_OF_INTERRUPT, 0);
    scheduler::reschedule();
}

extern "sysv64" fn device() {
    write(END_OF_INTERRUPT, 0);
    checks::interrupt::on_device();
    scheduler::reschedule();
}

extern "sysv64" fn died(vector: u64, frame: &[u64; 3]) -> ! {
    panic!("exception {vector}; error code or address, address, ...: {frame:x?}");
}

/// Defines the entry of an interrupt, which saves the registers that a function may change, and calls the handler.
/// Handlers run with interrupts disabled, on the stack of the interrupted thread. A handler may switch to another
/// thread: it returns when the interrupted thread runs again.
macro_rules! entry {
    ($name:ident, $handler:path) => {
        #[unsafe(naked)]
        extern "sysv64" fn $name() {
            naked_asm!(
                "push rax; push rcx; push rdx; push rsi; push rdi; push r8; push r9; push r10; push r11",
                "cld",
                "call {}",
                "pop r11; pop r10; pop r9; pop r8; pop rdi; pop rsi; pop rdx; pop rcx; pop rax",
                "iretq",
                sym $handler
            )
        }
    };
}

entry!(tick_entry, tick);
entry!(kick_entry, kick);
entry!(device_entry, device);

#[unsafe(naked)]
extern "sysv64" fn spurious_entry() {
    naked_asm!("iretq")
}

#[unsafe(naked)]
extern "sysv64" fn exception<const VECTOR: u32>() {
    naked_asm!("mov edi, {}", "mov rsi, rsp", "and rsp, -16", "call {}", const VECTOR, sym died)
}
