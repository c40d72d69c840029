//! `--trap`: memory with protection keys, pkeys(7).
//!
//! When the kernel delivers a signal, it stores the thread's rights in the frame and gives the handler those that a new
//! process has: only memory with key 0 can be accessed. A system call has the thread's own rights, and may be made on a
//! stack with another key. So the handler of SIGSYS first gives itself all rights, which needs no memory, and then those
//! of the thread. The way back restores the thread's rights with its other registers.
//!
//! Our own memory has key 0, so that key stays accessible. All this begins when the program allocates its first key:
//! changing the rights takes a tenth of the time of a trapped call.

use core::arch::asm;
use core::arch::x86_64::__cpuid_count;
use core::sync::atomic::{AtomicU32, Ordering};

use crate::signals::Context;

/// The bit of these rights, which Intel calls PKRU, among the register sets of XSAVE.
const PKRU: u32 = 9;
/// The rights for key 0: two bits, which forbid something if they are set.
const KEY_0: u32 = 0b11;

/// The offset of the rights in a frame's area of XSAVE. 0 means that no rights are changed, because the program has not
/// allocated a key. Read by the assembly of `trap.rs`.
pub static OFFSET: AtomicU32 = AtomicU32::new(0);

/// Called before the program allocates a key. `context` is that of any SIGSYS.
pub fn begin(context: &Context) {
    if let Some((_, features)) = context.xsave_area()
        && features >> PKRU & 1 != 0
    {
        // CPUID leaf 0xd has a sub-leaf for each register set that the kernel saves.
        OFFSET.store(__cpuid_count(0xd, PKRU).ebx, Ordering::Relaxed);
    }
}

/// Gives this thread the rights that it had before the signal, and access to memory with key 0.
pub fn enter(context: &Context) {
    /// The offset of the word that says which register sets do not have their first values.
    const CHANGED: usize = 512;
    let offset = OFFSET.load(Ordering::Relaxed) as usize;
    if offset == 0 {
        return;
    }
    let Some((area, _)) = context.xsave_area() else { return };
    // SAFETY: a frame's area of XSAVE contains the header, and the rights if the kernel saves them.
    let rights = unsafe {
        let is_changed = area.add(CHANGED).cast::<u64>().read_unaligned() >> PKRU & 1 != 0;
        if is_changed { area.add(offset).cast::<u32>().read_unaligned() } else { 0 }
    };
    set(rights & !KEY_0);
}

/// Gives this thread other rights. Call only if `OFFSET` is not 0.
pub fn set(rights: u32) {
    // SAFETY: `wrpkru`, which exists if there are protection keys. Memory of key 0 stays accessible.
    unsafe { asm!(".byte 0x0f, 0x01, 0xef", in("eax") rights, in("ecx") 0u32, in("edx") 0u32, options(nostack)) };
}
