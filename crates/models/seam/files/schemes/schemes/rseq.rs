//! Restartable sequences (rseq(2)), as glibc 2.35 and later register them for every thread.
//!
//! The sequence here retries inside the assembly and returns its result in a register, so it needs only stable Rust.
//! Its operands are fields of one structure and are read inside the sequence, because each operand would take a
//! register and instructions.

use crate::sync::{AtomicU32, AtomicU64};
#[cfg(not(miri))]
use crate::sys::host::syscall5;

/// The offset of a thread's `struct rseq` from its thread pointer. All threads have the same offset.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Area {
    offset: isize,
}

impl Area {
    /// The area, if the C library has registered one. It has not under valgrind, under qemu-user, with
    /// `GLIBC_TUNABLES=glibc.pthread.rseq=0`, and if it is older or another one.
    pub fn find() -> Option<Self> {
        if cfg!(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64")))) {
            return None;
        }
        // SAFETY: the names are C strings; both symbols, where they exist, are constants of these types.
        let (offset, size) = unsafe {
            let offset = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_offset".as_ptr()).cast::<isize>();
            let size = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_size".as_ptr()).cast::<u32>();
            if offset.is_null() || size.is_null() {
                return None;
            }
            (*offset, *size)
        };
        (size != 0).then_some(Self { offset })
    }
}

/// Ends every restartable sequence that is running in this process, or makes it start again. Returns whether the kernel
/// has done so.
///
/// The kernel requires a process to register before it uses this command. Registering on demand needs no global state,
/// and registering twice is harmless.
#[cfg(not(miri))]
pub fn restart_sequences() -> bool {
    const PRIVATE_EXPEDITED_RSEQ: usize = 1 << 7;
    const REGISTER_PRIVATE_EXPEDITED_RSEQ: usize = 1 << 8;
    // SAFETY: membarrier(2) reads and writes no memory of ours.
    let succeeds = |command| unsafe { syscall5(libc::SYS_membarrier, command, 0, 0, 0, 0) } == 0;
    succeeds(PRIVATE_EXPEDITED_RSEQ) || (succeeds(REGISTER_PRIVATE_EXPEDITED_RSEQ) && succeeds(PRIVATE_EXPEDITED_RSEQ))
}

/// Miri has no restartable sequences.
#[cfg(miri)]
pub fn restart_sequences() -> bool {
    false
}

/// One more than the greatest number that a CPU can have here, or a little less. References are not counted on CPUs
/// beyond.
pub fn possible_cpus() -> usize {
    // SAFETY: sysconf(3) has no preconditions.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) }).unwrap_or(1).max(1)
}

/// The counts of one CPU: references taken and references given back. They are two words, so that taking a reference
/// need not wait for the store that counted the last return.
#[repr(C, align(64))]
#[derive(Default)]
pub struct Slot {
    pub taken: AtomicU64,
    pub returned: AtomicU64,
}

/// The counters of all CPUs. References can be counted as long as the counters are open. The sequence works on this
/// structure.
#[repr(C)]
pub struct Counters {
    /// 0 means open.
    pub state: AtomicU32,
    /// The number of slots.
    cpus: u32,
    area: Area,
    slots: *const Slot,
}

// SAFETY: the slots are shared memory, accessed by sequences and atomics alone.
unsafe impl Send for Counters {}
// SAFETY: as above.
unsafe impl Sync for Counters {}

/// A counted reference: the slot and the CPU where it was counted.
#[derive(Clone, Copy)]
pub struct Taken<'a> {
    slot: &'a Slot,
    counters: &'a Counters,
    cpu: u32,
}

impl Taken<'_> {
    /// Counts the reference as given back. `false` if the counters are not open; then nothing was counted.
    #[inline(always)]
    pub fn try_return(self) -> bool {
        // Most references are given back on the CPU where they were taken. The slot is known then, and only the CPU's
        // number is compared. That takes the look-up of the slot out of the chain of loads behind the bucket's locked
        // instruction.
        self.counters.try_return_to(self) || self.counters.try_return_here().is_some()
    }
}

impl Counters {
    /// # Safety
    /// `slots` points to `cpus` slots that stay valid as long as the result.
    pub unsafe fn new(area: Area, slots: *const Slot, cpus: u32) -> Self {
        Self { state: AtomicU32::new(0), cpus, area, slots }
    }
}

/// Defines a function that adds 1 to one word of the slot of the CPU it runs on if `state` is 0. The check and the
/// addition are one restartable sequence. It returns `None`, and counts nothing, if `state` is not 0 or the CPU's
/// number is not below `cpus`, as in a thread whose area is not registered.
#[cfg(all(target_arch = "x86_64", not(miri)))]
macro_rules! count_here {
    ($name:ident, $offset:literal) => {
        impl Counters {
            #[inline(always)]
            pub fn $name(&self) -> Option<Taken<'_>> {
                let (slot, cpu): (*const Slot, u32);
                // SAFETY: the sequence writes this thread's rseq_cs, which only this thread writes, and one slot in
                // bounds. The sequence lies between labels 22 and 33. Its only store is its last instruction. Before
                // that only registers change, and a restart at label 55 needs none of those.
                unsafe {
                    core::arch::asm!(
                        ".pushsection __rseq_cs, \"aw\"",
                        ".balign 32",
                        "77: .long 0, 0",
                        ".quad 22f, (33f - 22f), 44f",
                        ".popsection",
                        "mov {area}, qword ptr [{this} + 8]",
                        "55: lea {slot}, [rip + 77b]",
                        "mov qword ptr fs:[{area} + 8], {slot}",
                        "22: cmp dword ptr [{this}], 0",
                        "jne 66f",
                        "mov {cpu:e}, dword ptr fs:[{area} + 4]",
                        "cmp {cpu:e}, dword ptr [{this} + 4]",
                        "jae 66f",
                        "mov {slot:e}, {cpu:e}",
                        "shl {slot}, 6",
                        "add {slot}, qword ptr [{this} + 16]",
                        concat!("add qword ptr [{slot} + ", $offset, "], 1"),
                        "33:",
                        ".pushsection __rseq_failure, \"ax\"",
                        "66: xor {slot:e}, {slot:e}",
                        "jmp 33b",
                        ".byte 0x0f, 0xb9, 0x3d",
                        ".long 0x53053053",
                        "44: jmp 55b",
                        ".popsection",
                        slot = out(reg) slot,
                        cpu = out(reg) cpu,
                        area = out(reg) _,
                        this = in(reg) self,
                        options(nostack),
                    );
                }
                // SAFETY: null, or one of the slots.
                unsafe { slot.as_ref() }.map(|slot| Taken { slot, counters: self, cpu })
            }
        }
    };
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
impl Counters {
    /// Counts 1 as given back in the slot of `taken` if the counters are open and the thread is still on that slot's
    /// CPU.
    #[inline(always)]
    fn try_return_to(&self, taken: Taken<'_>) -> bool {
        let refused: u32;
        // SAFETY: as for `count_here`; `taken` points to one of the slots.
        unsafe {
            core::arch::asm!(
                ".pushsection __rseq_cs, \"aw\"",
                ".balign 32",
                "77: .long 0, 0",
                ".quad 22f, (33f - 22f), 44f",
                ".popsection",
                "mov {area}, qword ptr [{this} + 8]",
                "55: lea {refused:r}, [rip + 77b]",
                "mov qword ptr fs:[{area} + 8], {refused:r}",
                "22: mov {refused:e}, dword ptr [{this}]",
                "test {refused:e}, {refused:e}",
                "jnz 33f",
                "cmp dword ptr fs:[{area} + 4], {cpu:e}",
                "jne 66f",
                "add qword ptr [{slot} + 8], 1",
                "33:",
                ".pushsection __rseq_failure, \"ax\"",
                "66: mov {refused:e}, 1",
                "jmp 33b",
                ".byte 0x0f, 0xb9, 0x3d",
                ".long 0x53053053",
                "44: jmp 55b",
                ".popsection",
                refused = out(reg) refused,
                area = out(reg) _,
                slot = in(reg) core::ptr::from_ref(taken.slot),
                cpu = in(reg) taken.cpu,
                this = in(reg) self,
                options(nostack),
            );
        }
        refused == 0
    }
}

/// As for x86-64. The word is written by the store right before label 33.
#[cfg(all(target_arch = "aarch64", not(miri)))]
macro_rules! count_here {
    ($name:ident, $offset:literal) => {
        impl Counters {
            #[inline(always)]
            pub fn $name(&self) -> Option<Taken<'_>> {
                let (slot, cpu): (*const Slot, u32);
                // SAFETY: as for x86-64.
                unsafe {
                    core::arch::asm!(
                        ".pushsection __rseq_cs, \"aw\"",
                        ".balign 32",
                        "77: .word 0, 0",
                        ".quad 22f, (33f - 22f), 44f",
                        ".popsection",
                        "ldr {v}, [{this}, #8]",
                        "mrs {rs}, tpidr_el0",
                        "add {rs}, {rs}, {v}",
                        "55: adrp {v}, 77b",
                        "add {v}, {v}, :lo12:77b",
                        "str {v}, [{rs}, #8]",
                        "22: mov {slot}, #0",
                        "ldar {v:w}, [{this}]",
                        "cbnz {v:w}, 33f",
                        "ldr {cpu:w}, [{rs}, #4]",
                        "ldr {v:w}, [{this}, #4]",
                        "cmp {cpu:w}, {v:w}",
                        "b.hs 33f",
                        "ldr {v}, [{this}, #16]",
                        "add {slot}, {v}, {cpu:x}, lsl #6",
                        concat!("ldr {v}, [{slot}, #", $offset, "]"),
                        "add {v}, {v}, #1",
                        concat!("str {v}, [{slot}, #", $offset, "]"),
                        "33:",
                        ".pushsection __rseq_failure, \"ax\"",
                        ".inst 0xd428bc00",
                        "44: b 55b",
                        ".popsection",
                        rs = out(reg) _,
                        v = out(reg) _,
                        slot = out(reg) slot,
                        cpu = out(reg) cpu,
                        this = in(reg) self,
                        options(nostack),
                    );
                }
                // SAFETY: null, or one of the slots.
                unsafe { slot.as_ref() }.map(|slot| Taken { slot, counters: self, cpu })
            }
        }
    };
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
impl Counters {
    /// Here the look-up of the slot is always repeated. It has not been measured whether a short cut pays.
    fn try_return_to(&self, taken: Taken<'_>) -> bool {
        let _ = (taken.slot, taken.cpu);
        false
    }
}

/// This architecture has no sequence: nothing is ever counted.
#[cfg(any(not(any(target_arch = "x86_64", target_arch = "aarch64")), miri))]
macro_rules! count_here {
    ($name:ident, $offset:literal) => {
        impl Counters {
            pub fn $name(&self) -> Option<Taken<'_>> {
                let _ = (self.cpus, self.area, self.slots);
                None
            }
        }
    };
}

count_here!(try_take, "0");
count_here!(try_return_here, "8");
