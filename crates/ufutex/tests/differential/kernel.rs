//! The target for futex(2), which is the oracle.
//!
//! A signal cannot end a call that the kernel restarts after each signal. Therefore the calls use a `syscall`
//! instruction of their own with a known address, and the handler of `ABANDONING` moves the instruction pointer past
//! it.

use std::sync::Once;

use crate::common::kernel;
use crate::program::WORKERS;
use crate::resolve::{Raw, Robust};
use crate::workers::Target;

std::arch::global_asm!(
    ".globl differential_syscall",
    ".globl differential_syscall_instruction",
    "differential_syscall:",
    "mov rax, rdi",
    "mov rdi, [rsi]",
    "mov rdx, [rsi + 16]",
    "mov r10, [rsi + 24]",
    "mov r8, [rsi + 32]",
    "mov r9, [rsi + 40]",
    "mov rsi, [rsi + 8]",
    "differential_syscall_instruction:",
    "syscall",
    "ret",
);

unsafe extern "C" {
    fn differential_syscall(number: u64, args: *const [u64; 6]) -> i64;
    fn differential_syscall_instruction();
}

/// The length of the instruction `syscall`.
const INSTRUCTION_BYTES: i64 = 2;

/// The kernel as a target of the workers' calls.
pub struct Kernel {
    tids: [u32; WORKERS],
}

/// Interrupts a call. Its handler is installed with `SA_RESTART`.
const RESTARTING: i32 = libc::SIGUSR2;
/// Interrupts a call. Its handler is installed without `SA_RESTART`.
const PLAIN: i32 = libc::SIGUSR1;
/// Ends a call, even one that would be restarted.
const ABANDONING: i32 = libc::SIGURG;

impl Kernel {
    pub fn new(tids: [u32; WORKERS]) -> Self {
        static HANDLERS: Once = Once::new();
        HANDLERS.call_once(|| {
            handle(PLAIN, nothing as extern "C" fn(i32) as usize, 0);
            handle(RESTARTING, nothing as extern "C" fn(i32) as usize, libc::SA_RESTART);
            handle(ABANDONING, abandon as Handler as usize, libc::SA_SIGINFO);
        });
        Self { tids }
    }

    fn kill(&self, worker: usize, signal: i32) {
        kernel::kill(self.tids[worker].cast_signed(), signal);
    }
}

impl Target for Kernel {
    fn call(&self, _: usize, raw: &Raw) -> i64 {
        // SAFETY: futex calls write only to the words in their arguments. These are atomics in pages that stay mapped.
        unsafe { differential_syscall(raw.number as u64, &raw.args) }
    }

    fn signal(&self, worker: usize, sa_restart: bool) {
        self.kill(worker, if sa_restart { RESTARTING } else { PLAIN });
    }

    fn abandon(&self, worker: usize) {
        self.kill(worker, ABANDONING);
    }

    fn exit(&self, _: usize, robust: &Robust) {
        const LENGTH: u64 = 24;
        // SAFETY: the list lies in pages that stay mapped, and only the exit of this thread reads it. The list that
        // glibc has registered is not needed any more, because this thread holds no robust mutex of glibc.
        let result = unsafe { kernel::syscall(libc::SYS_set_robust_list, [robust.head, LENGTH, 0, 0, 0, 0]) };
        kernel::succeeded("set_robust_list", result);
    }

    fn resize(&self, _: usize) {}
}

type Handler = extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void);

fn handle(signal: i32, handler: usize, flags: i32) {
    // SAFETY: zero is a valid sigaction. The handlers access only the context in their arguments.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = flags;
        assert_eq!(libc::sigaction(signal, &action, std::ptr::null_mut()), 0);
    }
}

extern "C" fn nothing(_: i32) {}

extern "C" fn abandon(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: a handler with SA_SIGINFO receives the thread's context and may change it.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let instruction = differential_syscall_instruction as *const () as i64;
    if registers[libc::REG_RIP as usize] == instruction {
        registers[libc::REG_RIP as usize] += INSTRUCTION_BYTES;
        registers[libc::REG_RAX as usize] = -i64::from(libc::EINTR);
    }
}
