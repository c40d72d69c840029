//! Two barriers: `light` for a thread that unlocks, `heavy` for a contender that is about to sleep until the unlock.
//!
//! The one unlocks, and then looks for contenders. The other says that it contends, and then looks at the lock. If both
//! had a full barrier between the two steps, at least one would see what the other has stored. But unlocking is on the
//! path of every operation, so it has none: the CPU may look for contenders while the unlock is still in its store
//! buffer. If a contender looks at the lock in those nanoseconds, neither sees the other. So it has to look again.

use crate::sync;

/// **[D]** The side that runs often: a barrier for the compiler alone.
#[inline(always)]
pub fn light() {
    if !sync::MODEL {
        core::sync::atomic::compiler_fence(core::sync::atomic::Ordering::SeqCst);
    } else if !sync::mutant(sync::Mutant::NoUnlockBarrier) {
        sync::fence(sync::Ordering::SeqCst);
    }
}

/// **[C]** The side that runs rarely: a full barrier.
pub fn heavy() {
    if !sync::mutant(sync::Mutant::NoContendedBarrier) {
        sync::fence(sync::Ordering::SeqCst); // [C]
    }
}
