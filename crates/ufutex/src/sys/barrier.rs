//! The two barriers between a thread that unlocks and a thread that is about to sleep for that.
//!
//! One thread runs `store x; light(); load y` while another runs `store y; heavy(); load x`. With a full barrier on both
//! sides at least one of them would see the other's store. The light side is on the path of every operation, so it has
//! none: its store may still be in its CPU's store buffer while it loads. Then neither sees the other, and the heavy
//! side has to look again after some time.

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
