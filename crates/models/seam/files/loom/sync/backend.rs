//! Loom's atomics and cells.

pub use loom::cell::UnsafeCell;
pub use loom::sync::atomic::{AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
pub use loom::sync::{Condvar, Mutex};
pub use loom::thread_local;

/// The number of spins of one thread after which loom explores no other choices for the rest of an execution.
const MOST_SPINS: u32 = 8;

/// Lets other threads run. If two threads spin until a third has made progress, they may take turns for ever while
/// that thread does not run. Loom would explore each such execution until its limit of branches. A spin changes
/// nothing. So what may follow it is also explored after fewer spins, and the rest of an execution with many spins
/// just runs to its end.
pub fn spin_loop() {
    loom::thread_local! {
        static SPINS: core::cell::Cell<u32> = core::cell::Cell::new(0);
    }
    let spins = SPINS.with(|spins| spins.replace(spins.get() + 1));
    if spins >= MOST_SPINS {
        loom::skip_branch();
    }
    loom::hint::spin_loop();
}
