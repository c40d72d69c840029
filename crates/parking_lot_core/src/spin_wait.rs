//! A short wait before parking.

use std::hint::spin_loop;

/// This many rounds stay on the CPU: two, four, then eight pauses. If the lock's holder runs, the lock is often free by
/// then.
const PAUSING_ROUNDS: u32 = 3;
/// After this many rounds in all it is better to sleep.
const ROUNDS: u32 = 10;

/// Counts the rounds of a loop that waits for a change. Each round waits longer than the one before.
#[derive(Default)]
pub struct SpinWait {
    rounds: u32,
}

impl SpinWait {
    /// Makes a counter that has not waited yet.
    #[inline]
    #[must_use]
    pub const fn new() -> Self {
        Self { rounds: 0 }
    }

    /// Starts the count again.
    #[inline]
    pub const fn reset(&mut self) {
        self.rounds = 0;
    }

    /// Waits for a moment, at first on the CPU and later by yielding it. Returns `false` at once after enough rounds:
    /// the thread should park now.
    #[inline]
    pub fn spin(&mut self) -> bool {
        if self.rounds == ROUNDS {
            return false;
        }
        self.rounds += 1;
        if self.rounds <= PAUSING_ROUNDS {
            pause(self.rounds);
        } else {
            std::thread::yield_now();
        }
        true
    }

    /// Waits for a moment without yielding the CPU: for loops around a compare-and-swap.
    #[inline]
    pub fn spin_no_yield(&mut self) {
        self.rounds = (self.rounds + 1).min(ROUNDS);
        pause(self.rounds);
    }
}

#[inline]
fn pause(round: u32) {
    for _ in 0..1 << round {
        spin_loop();
    }
}
