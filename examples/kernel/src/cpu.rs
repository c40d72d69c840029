//! What each CPU has of its own, and sections in which a thread keeps its CPU.

use core::arch::asm;
use core::cell::Cell;
use core::ptr;

use x86_64::VirtAddr;
use x86_64::instructions::interrupts;
use x86_64::registers::model_specific::GsBase;

pub const CPUS: usize = 2;

#[repr(C)]
pub struct Cpu {
    /// The address of this `Cpu`, which `this` finds by the register GS.
    this: Cell<*const Cpu>,
    index: Cell<usize>,
    /// The number of sections that the running thread is in.
    depth: Cell<u32>,
    /// Whether interrupts were enabled before the outermost section.
    were_enabled: Cell<bool>,
    /// The running thread.
    current: Cell<usize>,
}

struct All([Cpu; CPUS]);

// SAFETY: a CPU uses its own `Cpu` alone, and with interrupts disabled.
unsafe impl Sync for All {}

static ALL: All = All([const {
    Cpu {
        this: Cell::new(ptr::null()),
        index: Cell::new(0),
        depth: Cell::new(0),
        were_enabled: Cell::new(false),
        current: Cell::new(0),
    }
}; CPUS]);

/// Makes the calling CPU the one with this index. The thread that calls has the same index. Interrupts are disabled.
pub fn start(index: usize) {
    let cpu = &ALL.0[index];
    cpu.this.set(cpu);
    cpu.index.set(index);
    cpu.current.set(index);
    GsBase::write(VirtAddr::from_ptr(cpu));
}

/// The calling CPU. Interrupts must be disabled, or the thread may be on another CPU when it uses the result.
fn this() -> &'static Cpu {
    let cpu: *const Cpu;
    // SAFETY: `start` has made GS the base of this CPU's `Cpu`, which begins with its own address.
    unsafe { asm!("mov {}, gs:[0]", out(reg) cpu, options(nostack, preserves_flags, readonly)) };
    // SAFETY: one of `ALL`.
    unsafe { &*cpu }
}

/// Begins a section: from now on the calling thread is neither interrupted nor preempted. Sections may overlap.
pub fn enter() {
    let were_enabled = interrupts::are_enabled();
    interrupts::disable();
    let cpu = this();
    if cpu.depth.get() == 0 {
        cpu.were_enabled.set(were_enabled);
    }
    cpu.depth.set(cpu.depth.get() + 1);
}

/// Ends a section. The end of the last one enables interrupts, if they were enabled before the first.
pub fn leave() {
    let cpu = this();
    cpu.depth.set(cpu.depth.get().checked_sub(1).expect("a section ends that has not begun"));
    if cpu.depth.get() == 0 && cpu.were_enabled.get() {
        interrupts::enable();
    }
}

/// Runs `f` in a section.
pub fn section<R>(f: impl FnOnce() -> R) -> R {
    enter();
    let result = f();
    leave();
    result
}

/// The index of the CPU. It stays right only in a section.
pub fn index() -> usize {
    section(|| this().index.get())
}

/// The thread that calls.
pub fn current() -> usize {
    section(|| this().current.get())
}

/// Runs `switch`, which puts thread `to` on the calling CPU in place of the caller. Called in exactly one section,
/// which belongs to `to` afterwards. Returns when another CPU or this one runs the caller again, in that switch's
/// section.
pub fn run_other(to: usize, switch: impl FnOnce()) {
    let cpu = this();
    assert_eq!(cpu.depth.get(), 1, "a thread that holds a lock must not sleep");
    let were_enabled = cpu.were_enabled.get();
    cpu.current.set(to);
    switch();
    this().were_enabled.set(were_enabled);
}
