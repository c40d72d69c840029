//! An asymmetric pair of barriers: the light side costs nothing, the heavy side pays for both.

use crate::sync;

/// **[D]** The side that runs often. Alone it is only a compiler barrier. A call of [`heavy`] makes it a full barrier.
#[inline(always)]
pub fn light() {
    if sync::MODEL {
        if !sync::mutant(sync::Mutant::NoUnlockBarrier) {
            sync::fence(sync::Ordering::SeqCst);
        }
    } else {
        core::sync::atomic::compiler_fence(core::sync::atomic::Ordering::SeqCst);
    }
}

/// **[C]** The side that runs rarely. When it returns, every thread of this process has passed a full barrier since the
/// call.
///
/// So if one thread runs `store x; light(); load y` while another runs `store y; heavy(); load x`, at least one of them
/// sees the other's store. Returns whether that holds. It does not hold without membarrier(2): then the caller must not
/// rely on its store being seen, and has to check again by itself.
pub fn heavy() -> bool {
    if sync::MODEL {
        if !sync::mutant(sync::Mutant::NoContendedBarrier) {
            sync::fence(sync::Ordering::SeqCst); // [C]
        }
        return true;
    }
    sync::fence(sync::Ordering::SeqCst); // [C]
    process_wide()
}

#[cfg(feature = "sim")]
fn process_wide() -> bool {
    ufutex_coherence::current::membarrier();
    true
}

#[cfg(all(feature = "std", target_os = "linux", not(any(feature = "sim", miri))))]
fn process_wide() -> bool {
    membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED, libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)
}

/// Asks for the barrier, and does not rely on it: Wine 8 has the call and does nothing in it.
#[cfg(all(feature = "std", windows, not(any(feature = "sim", miri))))]
fn process_wide() -> bool {
    // SAFETY: has no conditions.
    unsafe { windows_sys::Win32::System::Threading::FlushProcessWriteBuffers() };
    false
}

#[cfg(not(any(feature = "sim", all(feature = "std", any(target_os = "linux", windows), not(miri)))))]
fn process_wide() -> bool {
    false
}

/// Makes a membarrier(2) call. Returns whether the kernel has made the barrier.
///
/// The kernel requires a process to register before it uses a command. Registering on demand needs no global state, and
/// registering twice is harmless.
#[cfg(all(feature = "std", target_os = "linux", not(any(feature = "sim", miri))))]
pub fn membarrier(command: i32, register: i32) -> bool {
    // SAFETY: membarrier(2) reads and writes no memory of ours.
    let call = |command: i32| unsafe { super::syscall::syscall5(libc::SYS_membarrier, command as usize, 0, 0, 0, 0) };
    call(command) == 0 || (call(register) == 0 && call(command) == 0)
}
