//! The way back from the handler of SIGSYS to the program without rt_sigreturn(2), which takes as long as the engine
//! takes for a whole wake.
//!
//! rt_sigreturn(2) restores registers and the signal mask. If the handler has not changed the mask, only registers are
//! left to restore. The `syscall` instruction overwrites rcx and r11 anyway. So these two are free for loading the
//! other registers from the handler's frame, and for leaving the frame with the last two instructions.
//!
//! A signal may arrive while the program's registers are being loaded. Before the program's handler sees such a
//! half-restored context, [`complete`] completes it.
//!
//! If there is more to restore than registers, the kernel does it: see [`is_possible`].

use core::arch::{asm, naked_asm};
use core::ffi::c_void;
use core::mem::offset_of;
use core::ptr;

use crate::gate::{self, Gate};
use crate::signals::{Context, FEATURES};

/// A flag of an alternate stack. The kernel disables such a stack when it delivers a signal, even if the handler does
/// not run on it, and enables it again in rt_sigreturn(2).
const SS_AUTODISARM: u32 = 1 << 31;
/// The flag in rflags by which a debugger single-steps.
const TRAP_FLAG: u64 = 1 << 8;

const REGISTERS: usize = offset_of!(libc::ucontext_t, uc_mcontext) + offset_of!(libc::mcontext_t, gregs);
const FP_STATE: usize = offset_of!(libc::ucontext_t, uc_mcontext) + offset_of!(libc::mcontext_t, fpregs);

const fn at(register: i32) -> usize {
    REGISTERS + register as usize * 8
}

/// Whether the kernel would restore nothing but registers.
fn is_possible(context: &Context) -> bool {
    let shadow_stack: u64;
    // SAFETY: `rdsspq rax`, which does nothing if there is no shadow stack. If there is one, it has an entry for the
    // handler, which only the kernel can remove.
    unsafe { asm!("xor eax, eax", ".byte 0xf3, 0x48, 0x0f, 0x1e, 0xc8", out("rax") shadow_stack, options(nostack)) };
    let is_saved = context.xsave_area().is_some();
    let steps = context.register(libc::REG_EFL) & TRAP_FLAG != 0;
    let is_disarmed = context.alternate_stack_flags() & SS_AUTODISARM != 0;
    is_saved && shadow_stack == 0 && !steps && !is_disarmed
}

/// Leaves the engine and continues the program at the given context, if that is possible. Otherwise it returns, and the
/// handler has to return to the kernel.
///
/// # Safety
/// The context must be that of the SIGSYS whose handler calls this. The thread is inside by flag, by this gate; unless a
/// signal was deferred, its mask is the program's. Nothing of the handler's stack may be needed any more.
pub unsafe fn go(context: &Context, gate: *mut Gate) {
    if is_possible(context) {
        // SAFETY: the caller guarantees it.
        unsafe { leave(context.as_ptr(), gate) }
    }
}

/// Loads the registers. r11 holds the frame's address until the stack pointer is the program's. From then on the next
/// signal may overwrite the frame, which is below the stack pointer. Returns if a signal was deferred.
#[unsafe(naked)]
unsafe extern "C-unwind" fn leave(frame: *mut c_void, gate: *mut Gate) {
    naked_asm!(
        ".globl ufutex_back_begins, ufutex_back_ends",
        ".hidden ufutex_back_begins, ufutex_back_ends",
        ".cfi_startproc",
        "mov r11, rdi",
        "mov rcx, rsi",
        "mov rsi, [r11 + {fp}]",
        "mov eax, [rsi + {features}]",
        "mov edx, [rsi + {features} + 4]",
        "xrstor64 [rsi]",
        "mov byte ptr [rcx + {busy}], {outside}",
        "ufutex_back_begins:",
        "cmp byte ptr [rcx + {deferred}], 0",
        "jne 2f",
        "mov r8, [r11 + {r8}]",
        "mov r9, [r11 + {r9}]",
        "mov r10, [r11 + {r10}]",
        "mov r12, [r11 + {r12}]",
        "mov r13, [r11 + {r13}]",
        "mov r14, [r11 + {r14}]",
        "mov r15, [r11 + {r15}]",
        "mov rdi, [r11 + {rdi}]",
        "mov rsi, [r11 + {rsi}]",
        "mov rbp, [r11 + {rbp}]",
        "mov rbx, [r11 + {rbx}]",
        "mov rdx, [r11 + {rdx}]",
        "mov rax, [r11 + {rax}]",
        "mov rcx, [r11 + {rip}]",
        "push qword ptr [r11 + {flags}]",
        "popfq",
        "mov rsp, [r11 + {rsp}]",
        "ufutex_back_ends:",
        "jmp rcx",
        "2: ret",
        ".cfi_endproc",
        busy = const gate::BUSY_AT,
        outside = const gate::OUTSIDE,
        deferred = const gate::DEFERRED_AT,
        fp = const FP_STATE,
        features = const FEATURES,
        r8 = const at(libc::REG_R8),
        r9 = const at(libc::REG_R9),
        r10 = const at(libc::REG_R10),
        r12 = const at(libc::REG_R12),
        r13 = const at(libc::REG_R13),
        r14 = const at(libc::REG_R14),
        r15 = const at(libc::REG_R15),
        rdi = const at(libc::REG_RDI),
        rsi = const at(libc::REG_RSI),
        rbp = const at(libc::REG_RBP),
        rbx = const at(libc::REG_RBX),
        rdx = const at(libc::REG_RDX),
        rax = const at(libc::REG_RAX),
        rip = const at(libc::REG_RIP),
        flags = const at(libc::REG_EFL),
        rsp = const at(libc::REG_RSP),
    )
}

unsafe extern "C" {
    // Labels in `leave`, not functions.
    safe fn ufutex_back_begins();
    safe fn ufutex_back_ends();
}

/// Completes the context of a thread that a signal has interrupted in `leave`: makes it the context that `leave` was
/// about to restore.
pub fn complete(context: &Context) {
    let rip = context.register(libc::REG_RIP);
    let (begins, ends) = (ufutex_back_begins as *const () as u64, ufutex_back_ends as *const () as u64);
    if rip == ends {
        context.set_register(libc::REG_RIP, context.register(libc::REG_RCX));
    } else if (begins..ends).contains(&rip) {
        let frame = ptr::with_exposed_provenance_mut(context.register(libc::REG_R11) as usize);
        // SAFETY: in `leave` r11 holds the frame of the handler that was ending. It is above the current handler's
        // stack.
        let left = unsafe { Context::new(frame) };
        for register in (libc::REG_R8..=libc::REG_RIP).chain([libc::REG_EFL]) {
            context.set_register(register, left.register(register));
        }
    }
}
