//! The two barriers of the handshake between a waiter and a waker: see [A] and [B] in ORDERING.md.

use super::{Ordering, fence};

/// **[A]** A full barrier between the acquisition of a bucket's lock and the waiter's load of the futex word.
///
/// Pairs with **[B]**, [`wake_barrier`]. On x86-64 the locked instruction that took the lock is that barrier, so only the
/// compiler must be kept from reordering. On Arm an acquiring compare-and-swap lets the later load pass its store.
#[inline(always)]
pub fn wait_barrier() {
    if cfg!(all(target_arch = "x86_64", not(miri))) {
        core::sync::atomic::compiler_fence(core::sync::atomic::Ordering::SeqCst);
    } else {
        fence(Ordering::SeqCst);
    }
}

/// **[B]** A full barrier from the caller's store to the word to the waker's load of the bucket's state. Pairs with **[A]**.
#[inline(always)]
pub fn wake_barrier() {
    fence(Ordering::SeqCst);
}
