//! What locks bring to their holder: its boosts, and the heights of their waiters.

use alloc::vec::Vec;

use super::LEVELS;
use crate::error::Error;
#[cfg(doc)]
use crate::futex::priority::NORMAL;

/// What a lock contributes to its holder: its first waiter's priority, and the greatest height of its waiters. Both are
/// `None` for a lock without waiters.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Brought {
    pub level: Option<u8>,
    pub height: Option<u32>,
}

impl Brought {
    pub const NOTHING: Self = Self { level: None, height: None };
}

/// The priorities to which the locks that a task holds boost it.
pub struct Boosts {
    /// For each level, how many of the locks have a first waiter of that level. Empty for a task that has never held or
    /// waited for a lock.
    counts: Vec<u32>,
    /// The levels whose count is not zero.
    levels: u128,
}

impl Boosts {
    pub const fn new() -> Self {
        Self { counts: Vec::new(), levels: 0 }
    }

    /// The level that runs first; greater than [`NORMAL`] if nothing boosts the task.
    pub fn best(&self) -> u8 {
        self.levels.trailing_zeros() as u8
    }

    /// Makes room for all levels.
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

/// A multiset of heights that keeps track of the greatest one. Each height is stored with the number of times that it occurs.
pub struct Heights {
    /// The greatest height and its count, stored here: if each lock of a chain has one waiter, a walk along the chain
    /// needs no vector.
    greatest: (u32, u32),
    /// The other heights, in ascending order. There is capacity for all that can be added.
    others: Vec<(u32, u32)>,
}

impl Heights {
    pub const fn new() -> Self {
        Self { greatest: (0, 0), others: Vec::new() }
    }

    pub fn greatest(&self) -> Option<u32> {
        (self.greatest.1 != 0).then_some(self.greatest.0)
    }

    /// Makes room for this number of different heights.
    pub fn reserve(&mut self, different: usize) -> Result<(), Error> {
        let more = different.saturating_sub(1 + self.others.len());
        self.others.try_reserve(more).map_err(|_| Error::NoMemory)
    }

    /// Adds a height. There is room for it.
    pub fn add(&mut self, height: u32) {
        let (greatest, count) = &mut self.greatest;
        if *count == 0 {
            self.greatest = (height, 1);
        } else if *greatest == height {
            *count += 1;
        } else if *greatest < height {
            self.others.push(self.greatest);
            self.greatest = (height, 1);
        } else {
            match self.others.binary_search_by_key(&height, |&(height, _)| height) {
                Ok(i) => self.others[i].1 += 1,
                Err(i) => self.others.insert(i, (height, 1)),
            }
        }
    }

    /// Takes back a height that was added.
    pub fn remove(&mut self, height: u32) {
        if self.greatest.0 == height {
            self.greatest.1 -= 1;
            if self.greatest.1 == 0 {
                self.greatest = self.others.pop().unwrap_or((0, 0));
            }
        } else if let Ok(i) = self.others.binary_search_by_key(&height, |&(height, _)| height) {
            self.others[i].1 -= 1;
            if self.others[i].1 == 0 {
                self.others.remove(i);
            }
        }
    }
}
