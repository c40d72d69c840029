//! [A] and [B]. A model checker takes nothing but a fence for a full barrier.

use super::{Ordering, fence};

/// **[A]**
pub fn wait_barrier() {
    fence(Ordering::SeqCst);
}

/// **[B]**
pub fn wake_barrier() {
    fence(Ordering::SeqCst);
}
