//! The function that stubs jump to. It makes a futex call through the engine, as `crate::entry::syscall` does, and
//! preserves what the instruction preserves, except for the flags.
//!
//! A `syscall` instruction changes rax, rcx and r11, and no other register. So the vector registers are saved around
//! the call, and the 128 bytes below the stack pointer, which a function may use without moving it (the red zone of the
//! ABI), are left alone. Each instruction that is replaced stands in an `asm` statement of C, and on x86 compilers keep
//! nothing in the flags across one (GCC's manual, "Extended Asm", of the clobber `cc`).

use core::arch::naked_asm;
use core::arch::x86_64::{__cpuid, __cpuid_count, _xgetbv};
use core::mem::offset_of;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::calls::OURS_BITS;
use crate::entry::{AGAIN, Call, NOT_OURS, take};
use crate::gate::{self, Gate};
use crate::raw::COOKIE;
use crate::signals;

/// The register sets that the engine may change, as bits of XCR0: SSE, AVX, the three of AVX-512, and APX.
const ENGINE_STATE: u64 = 1 << 1 | 1 << 2 | 0b111 << 5 | 1 << 19;
/// The sizes of the sets behind the first, by bit, in XSAVEC's format. All are multiples of 64, the largest alignment.
const SIZES: [(u32, u64); 5] = [(2, 256), (5, 64), (6, 512), (7, 1024), (19, 128)];
/// The offset of the header, behind the registers of SSE, and its size.
const HEADER: usize = 512;
const HEADER_LEN: usize = 64;

/// Those of `ENGINE_STATE` that this machine has.
static SAVED_STATE: AtomicU32 = AtomicU32::new(0);
/// The size of the frame of [`from_stub`]: a [`Call`], and an area for these sets.
static FRAME: AtomicU64 = AtomicU64::new(0);

/// Finds out which registers have to be saved. `false` if this machine has no instruction for that, or none for finding
/// a thread's storage.
pub fn find_registers() -> bool {
    const OSXSAVE: u32 = 1 << 27;
    const XSAVEC: u32 = 1 << 1;
    // CPUID is executed here. The standard library's macro executes it about ten times, and on a virtual machine each
    // one goes to the hypervisor. A machine whose system has enabled XSAVE has leaf 0xd.
    let has_xsavec = || __cpuid(1).ecx & OSXSAVE != 0 && __cpuid_count(0xd, 1).eax & XSAVEC != 0;
    if !gate::is_found_without_a_call() || !has_xsavec() {
        return false;
    }
    // SAFETY: the system has enabled XSAVE, and with it XGETBV.
    let saved = unsafe { xcr0() } & ENGINE_STATE;
    let sizes = SIZES.iter().filter(|(bit, _)| saved >> bit & 1 != 0).map(|(_, size)| size).sum::<u64>();
    SAVED_STATE.store(saved as u32, Ordering::Relaxed);
    FRAME.store((CALL + HEADER + HEADER_LEN) as u64 + sizes, Ordering::Relaxed);
    true
}

/// The register sets that the system has enabled.
#[target_feature(enable = "xsave")]
fn xcr0() -> u64 {
    // SAFETY: register 0 exists on every machine with XSAVE.
    unsafe { _xgetbv(0) }
}

/// [`OURS_BITS`] for the assembly.
static OPS: u32 = OURS_BITS;

/// Makes a call that is the engine's. Returns what `take` returns, or `NOT_OURS` if the thread has no thread-local storage
/// of glibc's, is inside already (a debugger may call a function in a thread that it has stopped inside), or single-steps
/// itself.
/// `from_stub` then executes a `syscall`, which traps. The handler of SIGSYS goes inside by mask.
unsafe extern "C-unwind" fn take_by_flag(call: *mut Call) -> i64 {
    match Gate::find() {
        // SAFETY: the thread's own gate. The rest as the caller's.
        Some(gate) if unsafe { !Gate::is_busy(gate) } && !signals::is_stepped() => unsafe { take(call) },
        _ => NOT_OURS,
    }
}

const CALL: usize = size_of::<Call>().next_multiple_of(64);
pub const RED_ZONE: usize = 128;

unsafe extern "C" {
    /// The address in [`from_stub`] to which [`take_by_flag`] returns; never called. There, rbp points to the program's saved rbp. Above it
    /// are the address after the site and the red zone.
    #[link_name = "ufutex_taken_from_stub"]
    pub safe fn taken_from_stub();
}

/// Entered from a stub. r11 holds the address after the site. All other registers but rcx are as at the site.
///
/// `.cfi_signal_frame` makes an unwinder look up the return address itself, and not the byte before it, because no call
/// stands there. The return address is DWARF's column 16, and r11 its column 11.
#[unsafe(naked)]
pub unsafe extern "C" fn from_stub() {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_signal_frame",
        ".cfi_def_cfa rsp, 0",
        ".cfi_register 16, 11",
        // A thread may sleep long in an operation that is not the engine's, and is looked at by debuggers and profilers.
        // So the instruction is executed here, and not in the stub, which has no unwind information.
        "mov eax, esi",
        "and eax, {not_clock}",
        "xor eax, {private}",
        "cmp eax, 32",
        "jae 8f",
        "bt dword ptr [rip + {ops}], eax",
        "jnc 8f",
        "lea rsp, [rsp - {red_zone}]",
        ".cfi_adjust_cfa_offset {red_zone}",
        "push r11",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_rel_offset 16, 0",
        "push rbp",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_rel_offset rbp, 0",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "sub rsp, [rip + {frame}]",
        "and rsp, -64",
        "mov qword ptr [rsp], {futex}",
        "mov [rsp + 8], rdi",
        "mov [rsp + 16], rsi",
        "mov [rsp + 24], rdx",
        "mov [rsp + 32], r10",
        "mov [rsp + 40], r8",
        "mov [rsp + 48], r9",
        "mov qword ptr [rsp + {puts_mask_back}], 0",
        // XRSTOR faults unless bytes 16 to 63 of the header are zero. XSAVEC does not write them.
        "xor eax, eax",
        "mov [rsp + {header} + 16], rax",
        "mov [rsp + {header} + 24], rax",
        "mov [rsp + {header} + 32], rax",
        "mov [rsp + {header} + 40], rax",
        "mov [rsp + {header} + 48], rax",
        "mov [rsp + {header} + 56], rax",
        "mov eax, [rip + {saved}]",
        "xor edx, edx",
        "xsavec64 [rsp + {area}]",
        // As in `crate::entry::syscall`: signals that were deferred are delivered where the mask is restored.
        "3:",
        "mov rdi, rsp",
        "call {take}",
        ".globl ufutex_taken_from_stub",
        ".hidden ufutex_taken_from_stub",
        "ufutex_taken_from_stub:",
        "mov [rsp + {result}], rax",
        "cmp qword ptr [rsp + {puts_mask_back}], 0",
        "je 4f",
        "mov qword ptr [rsp + {puts_mask_back}], 0",
        "mov eax, {sigprocmask}",
        "mov edi, {setmask}",
        "lea rsi, [rsp + {mask}]",
        "xor edx, edx",
        "mov r10d, 8",
        "movabs r9, {cookie}",
        "syscall",
        "4:",
        "movabs rcx, {again}",
        "cmp [rsp + {result}], rcx",
        "je 3b",
        "mov eax, [rip + {saved}]",
        "xor edx, edx",
        "xrstor64 [rsp + {area}]",
        "mov rdi, [rsp + 8]",
        "mov rsi, [rsp + 16]",
        "mov rdx, [rsp + 24]",
        "mov r10, [rsp + 32]",
        "mov r8, [rsp + 40]",
        "mov r9, [rsp + 48]",
        "mov rax, [rsp + {result}]",
        "mov rsp, rbp",
        ".cfi_def_cfa_register rsp",
        "pop rbp",
        ".cfi_adjust_cfa_offset -8",
        ".cfi_same_value rbp",
        "inc rcx", // AGAIN + 1 is NOT_OURS
        "cmp rax, rcx",
        "jne 9f",
        "mov eax, {futex}",
        "syscall",
        "9:",
        "pop r11",
        ".cfi_adjust_cfa_offset -8",
        ".cfi_register 16, 11",
        "lea rsp, [rsp + {red_zone}]",
        ".cfi_adjust_cfa_offset -{red_zone}",
        "jmp r11",
        // An operation that is not the engine's.
        "8:",
        "mov eax, {futex}",
        "lea rsp, [rsp - {red_zone}]",
        ".cfi_adjust_cfa_offset {red_zone}",
        "push r11",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_rel_offset 16, 0",
        "syscall",
        "jmp 9b",
        ".cfi_endproc",
        not_clock = const !libc::FUTEX_CLOCK_REALTIME,
        private = const libc::FUTEX_PRIVATE_FLAG,
        ops = sym OPS,
        red_zone = const RED_ZONE,
        frame = sym FRAME,
        futex = const libc::SYS_futex,
        puts_mask_back = const offset_of!(Call, puts_mask_back),
        area = const CALL,
        header = const CALL + HEADER,
        saved = sym SAVED_STATE,
        take = sym take_by_flag,
        result = const offset_of!(Call, result),
        sigprocmask = const libc::SYS_rt_sigprocmask,
        setmask = const libc::SIG_SETMASK,
        mask = const offset_of!(Call, mask),
        cookie = const COOKIE,
        again = const AGAIN,
    )
}

const _: () = assert!(AGAIN + 1 == NOT_OURS);
