//! A multiset that keeps track of its greatest value.

use alloc::vec::Vec;

use crate::error::Error;

/// Each value is stored with the number of times that it occurs.
pub struct Multiset<T> {
    /// The greatest value and its count, stored here: if each lock of a chain has one waiter, a walk along the chain
    /// needs no vector.
    greatest: Option<(T, u32)>,
    /// The other values, in ascending order. There is capacity for all that can be added.
    others: Vec<(T, u32)>,
}

impl<T: Copy + Ord> Multiset<T> {
    pub const fn new() -> Self {
        Self { greatest: None, others: Vec::new() }
    }

    pub fn greatest(&self) -> Option<T> {
        self.greatest.map(|(greatest, _)| greatest)
    }

    /// Makes room for this number of different values.
    pub fn reserve(&mut self, different: usize) -> Result<(), Error> {
        let more = different.saturating_sub(1 + self.others.len());
        self.others.try_reserve(more).map_err(|_| Error::NoMemory)
    }

    /// Adds a value. There is room for it.
    pub fn add(&mut self, value: T) {
        match &mut self.greatest {
            Some((greatest, count)) if value == *greatest => *count += 1,
            Some((greatest, _)) if value < *greatest => {
                match self.others.binary_search_by_key(&value, |&(value, _)| value) {
                    Ok(i) => self.others[i].1 += 1,
                    Err(i) => self.others.insert(i, (value, 1)),
                }
            }
            _ => {
                if let Some(second) = self.greatest.replace((value, 1)) {
                    self.others.push(second);
                }
            }
        }
    }

    /// Takes back a value that was added.
    pub fn remove(&mut self, value: T) {
        if let Some((greatest, count)) = &mut self.greatest
            && *greatest == value
        {
            *count -= 1;
            if *count == 0 {
                self.greatest = self.others.pop();
            }
        } else if let Ok(i) = self.others.binary_search_by_key(&value, |&(value, _)| value) {
            self.others[i].1 -= 1;
            if self.others[i].1 == 0 {
                self.others.remove(i);
            }
        }
    }
}
