//! The lock of all four designs. It spins, as the kernel's does. But threads here have no CPU of their own, so it also
//! yields.

use crate::sync::{AtomicU32, Ordering, spin_loop, yield_now};

/// The number of times that a waiter checks the lock before it yields its CPU, perhaps to the lock's holder.
const SPINS: u32 = 100;

/// Four bytes, as in a `spinlock_t`.
#[derive(Default)]
#[repr(transparent)]
pub struct Spin(AtomicU32);

/// Holds the lock. Unlocks when dropped.
pub struct Held<'a>(&'a Spin);

impl Spin {
    /// Waits until the lock is free, and takes it.
    #[inline]
    pub fn lock(&self) -> Held<'_> {
        if self.0.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            self.wait();
        }
        Held(self)
    }

    #[cold]
    fn wait(&self) {
        loop {
            for _ in 0..SPINS {
                if self.0.load(Ordering::Relaxed) == 0
                    && self.0.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
                {
                    return;
                }
                spin_loop();
            }
            yield_now();
        }
    }
}

impl Drop for Held<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.0.store(0, Ordering::Release);
    }
}
