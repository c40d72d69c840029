//! A multiset of heights that keeps track of the greatest one.

use alloc::vec::Vec;

use crate::error::Error;

/// See the top of this file. Each height is stored with the number of times that it occurs.
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
