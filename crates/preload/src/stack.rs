//! A stack of our own, for code that needs a large one. The first thread that needs an engine makes it, and the last
//! one writes the report, perhaps inside a signal handler. These threads may have only 16 KiB of stack.

use core::arch::naked_asm;

use crate::{gate, raw};

const BYTES: u64 = 256 << 10;

/// Runs `f` on such a stack, with signals blocked but for those of faults. If there is no memory for it, `f` runs on the
/// calling thread's stack.
pub fn run<F: FnMut()>(mut f: F) {
    let mask = gate::block_all();
    match raw::map(BYTES as usize) {
        // SAFETY: mapped just now. The stack is no longer used when `run_on` has returned.
        Some(base) => unsafe {
            run_on(base + BYTES, f);
            raw::own(libc::SYS_munmap, [base, BYTES]);
        },
        None => f(),
    }
    gate::set_mask(mask);
}

/// Runs `f` on the stack that ends at `top`.
///
/// Meanwhile the kernel takes the thread's alternate stack for unused. If the thread is in a handler there, the next handler
/// would begin at its top, over that handler's frames.
///
/// # Safety
/// The memory below `top` is large enough, and nothing else uses it. If the thread is on its alternate stack, its signals are
/// blocked ([`gate::block_all`]). Those of faults are not: one that is sent there, or single steps, can still do harm.
pub unsafe fn run_on<F: FnMut()>(top: u64, mut f: F) {
    /// # Safety
    /// `f` must be an `F`.
    unsafe extern "C" fn call<F: FnMut()>(f: *mut F) {
        // SAFETY: the caller guarantees it.
        unsafe { (*f)() };
    }
    // SAFETY: `call` is for an `F`, and the end of a mapping is aligned as a stack has to be.
    unsafe { switch((&raw mut f).cast(), call::<F> as *const () as u64, top) };
}

/// Calls `function(argument)` on the stack that ends at `top`.
#[unsafe(naked)]
unsafe extern "C" fn switch(argument: *mut u8, function: u64, top: u64) {
    naked_asm!("push rbx", "mov rbx, rsp", "mov rsp, rdx", "call rsi", "mov rsp, rbx", "pop rbx", "ret")
}
