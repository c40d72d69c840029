//! The priorities that a task is lent by the locks that it holds.

use alloc::vec::Vec;

use crate::error::Error;
use crate::futex::priority::NORMAL;

const LEVELS: usize = NORMAL as usize + 1;

/// See the top of this file.
pub struct Lent {
    /// For each level, how many of the locks have a first waiter of that level. Empty for a task that has never held or
    /// waited for a lock.
    counts: Vec<u32>,
    /// The levels whose count is not zero.
    levels: u128,
}

impl Lent {
    pub const fn new() -> Self {
        Self { counts: Vec::new(), levels: 0 }
    }

    /// The level that runs first; greater than [`NORMAL`] if nothing is lent.
    pub fn best(&self) -> u8 {
        self.levels.trailing_zeros() as u8
    }

    pub fn make_room(&mut self) -> Result<(), Error> {
        if self.counts.is_empty() {
            self.counts.try_reserve_exact(LEVELS).map_err(|_| Error::NoMemory)?;
            self.counts.resize(LEVELS, 0);
        }
        Ok(())
    }

    /// Adds a level. There is room for it.
    pub fn add(&mut self, level: u8) {
        self.counts[usize::from(level)] += 1;
        self.levels |= 1 << level;
    }

    pub fn remove(&mut self, level: u8) {
        self.counts[usize::from(level)] -= 1;
        if self.counts[usize::from(level)] == 0 {
            self.levels &= !(1 << level);
        }
    }
}
