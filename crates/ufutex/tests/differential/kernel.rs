//! futex(2) itself: the oracle.
//!
//! A call that the kernel restarts after each signal could never be ended. So the call is made by an instruction of our
//! own, whose address a handler knows: it steps over the instruction that was about to be repeated.

use std::sync::Once;

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

/// The bytes of the instruction `syscall`.
const INSTRUCTION_BYTES: i64 = 2;

/// The kernel, as the workers call it.
pub struct Kernel {
    tids: [u32; WORKERS],
}

/// Interrupts; calls that can be restarted are.
const RESTARTING: i32 = libc::SIGUSR2;
/// Interrupts.
const PLAIN: i32 = libc::SIGUSR1;
/// Ends the call in any case.
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
        // SAFETY: sends a signal that is handled to a thread of this process.
        let result = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), self.tids[worker], signal) };
        assert_eq!(result, 0, "tgkill: {}", std::io::Error::last_os_error());
    }
}

impl Target for Kernel {
    fn call(&self, _: usize, raw: &Raw) -> i64 {
        // SAFETY: futex calls write to the words alone that they are given, which are atomics, in pages that stay.
        unsafe { differential_syscall(raw.number as u64, &raw.args) }
    }

    fn signal(&self, worker: usize, sa_restart: bool) {
        self.kill(worker, if sa_restart { RESTARTING } else { PLAIN });
    }

    fn abandon(&self, worker: usize) {
        self.kill(worker, ABANDONING);
    }

    fn exit(&self, _: usize, robust: &Robust) {
        const LENGTH: usize = 24;
        // SAFETY: the list lies in pages that stay, and nobody but this thread's end uses it. What glibc has registered
        // is not needed any more: this thread holds none of its robust mutexes.
        let result = unsafe { libc::syscall(libc::SYS_set_robust_list, robust.head, LENGTH) };
        assert_eq!(result, 0, "set_robust_list: {}", std::io::Error::last_os_error());
    }

    fn resize(&self, _: usize) {}
}

type Handler = extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void);

fn handle(signal: i32, handler: usize, flags: i32) {
    // SAFETY: zero is a valid sigaction; the handlers touch nothing but the context that they are given.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = flags;
        assert_eq!(libc::sigaction(signal, &action, std::ptr::null_mut()), 0);
    }
}

extern "C" fn nothing(_: i32) {}

extern "C" fn abandon(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel gives a handler with SA_SIGINFO the context of the thread, which is ours to change.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let instruction = differential_syscall_instruction as *const () as i64;
    if registers[libc::REG_RIP as usize] == instruction {
        registers[libc::REG_RIP as usize] += INSTRUCTION_BYTES;
        registers[libc::REG_RAX as usize] = -i64::from(libc::EINTR);
    }
}
