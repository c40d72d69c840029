//! Eventual fairness, as in the 0.9 line: now and then an unlock should hand the lock over, so that no thread starves.
//!
//! Each key has a point in time, on average half a millisecond ahead. The first unpark after that point should be fair,
//! and draws the next point. Keys whose hashes are equal share one point.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// The longest time until a key's next fair unpark is due. The average is half of it.
const LONGEST_NS: u32 = 1_000_000;
const CLOCKS: usize = 64;

/// The clock of all keys with one hash. It is only a hint: a thread that races with another loses a draw, and nothing
/// else.
#[repr(align(64))]
struct Clock {
    /// Nanoseconds since `START`. 0 means that the clock has not been used yet.
    fair_at: AtomicU64,
    random: AtomicU32,
}

static CLOCK: [Clock; CLOCKS] = [const { Clock { fair_at: AtomicU64::new(0), random: AtomicU32::new(0) } }; CLOCKS];
static START: OnceLock<Instant> = OnceLock::new();

/// Whether an unpark of `key` that happens now should be fair.
#[inline]
pub fn is_due(key: usize) -> bool {
    let number = hash(key);
    let now = START.get_or_init(Instant::now).elapsed().as_nanos() as u64;
    CLOCK[number].is_due(now, number as u32)
}

fn hash(key: usize) -> usize {
    ((key as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) as usize
}

impl Clock {
    fn is_due(&self, now: u64, seed: u32) -> bool {
        let fair_at = self.fair_at.load(Relaxed);
        if now <= fair_at {
            return false;
        }
        let ahead = self.draw(seed);
        self.fair_at.store(now + u64::from(ahead), Relaxed);
        // The first use only starts the clock.
        fair_at != 0
    }

    /// Draws a random number with xorshift, whose state is never zero.
    fn draw(&self, seed: u32) -> u32 {
        let mut x = self.random.load(Relaxed);
        if x == 0 {
            x = seed + 1;
        }
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        self.random.store(x, Relaxed);
        x % LONGEST_NS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unpark_is_fair_every_half_millisecond_on_average_and_not_at_first() {
        for seed in [0, 1, 2, CLOCKS as u32 - 1] {
            let clock = Clock { fair_at: AtomicU64::new(0), random: AtomicU32::new(0) };
            assert!(!clock.is_due(1, seed));
            // A key that is unparked every two microseconds for two seconds.
            let fair = (1..1_000_000).filter(|number| clock.is_due(2000 * number, seed)).count();
            assert!((3600..4400).contains(&fair), "seed {seed}: {fair} fair unparks in two seconds");
        }
    }

    #[test]
    fn hash_of_a_key_names_a_clock() {
        let mut used = [false; CLOCKS];
        for key in (0..CLOCKS * 64).map(|i| i * 64) {
            used[hash(key)] = true;
        }
        assert!(used.iter().all(|used| *used) && hash(usize::MAX) < CLOCKS);
    }
}
