//! Waiting a little before parking.

use std::hint::spin_loop;

/// So many rounds stay on the CPU: two, four, then eight pauses. A lock whose holder runs is often free by then.
const PAUSING_ROUNDS: u32 = 3;
/// After so many rounds in all it is better to sleep.
const ROUNDS: u32 = 10;

/// Counts the rounds of a loop that waits for something to change, each waiting longer than the one before.
#[derive(Default)]
pub struct SpinWait {
    rounds: u32,
}

impl SpinWait {
    /// One that has not waited yet.
    #[inline]
    #[must_use]
    pub const fn new() -> Self {
        Self { rounds: 0 }
    }

    /// Begins anew.
    #[inline]
    pub const fn reset(&mut self) {
        self.rounds = 0;
    }

    /// Waits for a moment, at first on the CPU and then leaving it to others. `false`, without waiting: it has waited long
    /// enough, and the thread had better park.
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

    /// Waits for a moment and never leaves the CPU: for loops around a compare-and-swap.
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
