//! Restartable sequences (rseq(2)), as glibc 2.35 and later register them for every thread.
//!
//! The sequence here retries inside the assembly and hands its verdict over in a register, so it needs nothing that is
//! not in stable Rust.

/// Where a thread's `struct rseq` lies, relative to its thread pointer; the same for all threads.
#[derive(Clone, Copy)]
pub struct Area {
    #[cfg_attr(
        not(any(target_arch = "x86_64", target_arch = "aarch64")),
        expect(dead_code, reason = "no sequence is written for this architecture")
    )]
    offset: isize,
}

impl Area {
    /// The area, if the C library has registered one: it has not under valgrind, under qemu-user, with
    /// `GLIBC_TUNABLES=glibc.pthread.rseq=0`, or in an older or other C library.
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

/// One more than the greatest number that a CPU can have here, or a little less: a CPU beyond is not counted for.
pub fn possible_cpus() -> usize {
    // SAFETY: sysconf(3) has no preconditions.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) }).unwrap_or(1).max(1)
}

/// If `*state` is zero, adds `delta` to the `u64` at `counters + 64 * cpu` of the CPU this runs on, in one piece with
/// the look at `*state`. `false`, and nothing added, if it is not zero or the CPU's number is not below `cpus`.
///
/// # Safety
/// `state` is valid, and so are `cpus` counters that are only accessed atomically or like this.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
pub unsafe fn add_if_zero(area: Area, state: *const u32, counters: *mut u64, cpus: u32, delta: i64) -> bool {
    let refused: u32;
    // SAFETY: the sequence writes this thread's rseq_cs, which is its to write, and one counter in bounds. It lies
    // between 22 and 33; its only store is its last instruction; before it only registers change, and it starts again
    // from 55, where they are set.
    unsafe {
        core::arch::asm!(
            ".pushsection __rseq_cs, \"aw\"",
            ".balign 32",
            "77: .long 0, 0",
            ".quad 22f, (33f - 22f), 44f",
            ".popsection",
            "55: lea {t}, [rip + 77b]",
            "mov qword ptr fs:[{area} + 8], {t}",
            "22: mov {refused:e}, 1",
            "cmp dword ptr [{state}], 0",
            "jne 33f",
            "mov {t:e}, dword ptr fs:[{area} + 4]",
            "cmp {t:e}, {cpus:e}",
            "jae 33f",
            "shl {t}, 6",
            "add {t}, {counters}",
            "xor {refused:e}, {refused:e}",
            "add qword ptr [{t}], {delta}",
            "33:",
            ".pushsection __rseq_failure, \"ax\"",
            ".byte 0x0f, 0xb9, 0x3d",
            ".long 0x53053053",
            "44: jmp 55b",
            ".popsection",
            t = out(reg) _,
            refused = out(reg) refused,
            area = in(reg) area.offset,
            state = in(reg) state,
            counters = in(reg) counters,
            cpus = in(reg) cpus,
            delta = in(reg) delta,
            options(nostack),
        );
    }
    refused == 0
}

/// If `*state` is zero, adds `delta` to the `u64` at `counters + 64 * cpu` of the CPU this runs on, in one piece with
/// the look at `*state`. `false`, and nothing added, if it is not zero or the CPU's number is not below `cpus`.
///
/// # Safety
/// `state` is valid, and so are `cpus` counters that are only accessed atomically or like this.
#[cfg(all(target_arch = "aarch64", not(miri)))]
#[inline(always)]
pub unsafe fn add_if_zero(area: Area, state: *const u32, counters: *mut u64, cpus: u32, delta: i64) -> bool {
    let refused: u32;
    // SAFETY: as for x86-64; the counter is written by the store right before 33, the last instruction.
    unsafe {
        core::arch::asm!(
            ".pushsection __rseq_cs, \"aw\"",
            ".balign 32",
            "77: .word 0, 0",
            ".quad 22f, (33f - 22f), 44f",
            ".popsection",
            "mrs {rs}, tpidr_el0",
            "add {rs}, {rs}, {area}",
            "55: adrp {t}, 77b",
            "add {t}, {t}, :lo12:77b",
            "str {t}, [{rs}, #8]",
            "22: mov {refused:w}, #1",
            "ldar {v:w}, [{state}]",
            "cbnz {v:w}, 33f",
            "ldr {t:w}, [{rs}, #4]",
            "cmp {t:w}, {cpus:w}",
            "b.hs 33f",
            "add {t}, {counters}, {t}, lsl #6",
            "ldr {v}, [{t}]",
            "add {v}, {v}, {delta}",
            "mov {refused:w}, #0",
            "str {v}, [{t}]",
            "33:",
            ".pushsection __rseq_failure, \"ax\"",
            ".inst 0xd428bc00",
            "44: b 55b",
            ".popsection",
            rs = out(reg) _,
            t = out(reg) _,
            v = out(reg) _,
            refused = out(reg) refused,
            area = in(reg) area.offset,
            state = in(reg) state,
            counters = in(reg) counters,
            cpus = in(reg) cpus,
            delta = in(reg) delta,
            options(nostack),
        );
    }
    refused == 0
}

/// No sequence is written for this architecture: nothing is ever added.
///
/// # Safety
/// None needed here; elsewhere it is.
#[cfg(any(not(any(target_arch = "x86_64", target_arch = "aarch64")), miri))]
pub unsafe fn add_if_zero(_: Area, _: *const u32, _: *mut u64, _: u32, _: i64) -> bool {
    false
}
