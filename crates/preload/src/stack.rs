//! A stack of our own, for what needs much of it: an engine is made by the first thread that needs one, the report is written
//! by the last, inside a signal handler perhaps, and threads may have 16 KiB in all.

use core::arch::naked_asm;

use crate::raw;

const BYTES: u64 = 256 << 10;

/// Runs `f` there; on the stack that we are on if there is no memory for it.
pub fn run<F: FnMut()>(mut f: F) {
    /// # Safety
    /// `f` must be an `F`.
    unsafe extern "C" fn call<F: FnMut()>(f: *mut F) {
        // SAFETY: says the caller.
        unsafe { (*f)() };
    }
    let Some(base) = raw::map(BYTES as usize) else {
        return f();
    };
    // SAFETY: `call` is for an `F`, and the top of the mapping is aligned as a stack has to be. Nothing of it is used
    // when `switch` has returned.
    unsafe {
        switch((&raw mut f).cast(), call::<F> as *const () as u64, base + BYTES);
        raw::own(libc::SYS_munmap, [base, BYTES]);
    }
}

/// Calls `function(argument)` on the stack that ends at `top`.
#[unsafe(naked)]
unsafe extern "C" fn switch(argument: *mut u8, function: u64, top: u64) {
    naked_asm!("push rbx", "mov rbx, rsp", "mov rsp, rdx", "call rsi", "mov rsp, rbx", "pop rbx", "ret")
}
