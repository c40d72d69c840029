//! Two barriers: `light` for a thread that unlocks a bucket, `heavy` for a contender that is about to sleep.
//!
//! The thread that unlocks stores the state and then loads `contended`. The contender raises `contended` and then loads
//! the state. If both had a full barrier in between, at least one would see what the other has stored. But unlocking is
//! on the path of every operation, so it has a barrier for the compiler alone: its CPU may load `contended` while the
//! state is still in its store buffer. A contender that loads the state in those nanoseconds finds the lock held, and
//! the unlock does not wake it. So contenders sleep with a deadline. ORDERING.md, "[C] and [D]", says more.

use crate::sync;

/// **[D]** Of the thread that unlocks: a barrier for the compiler alone. In a model a full one.
#[inline(always)]
pub fn light() {
    core::sync::atomic::compiler_fence(core::sync::atomic::Ordering::SeqCst);
}

/// **[C]** Of the contender: a full barrier.
pub fn heavy() {
    sync::fence(sync::Ordering::SeqCst); // [C]
}
