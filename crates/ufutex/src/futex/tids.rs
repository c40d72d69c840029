//! A map from TIDs to values. The time of an operation does not depend on the number of TIDs.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::lock_word::TID_MASK;
use crate::error::Error;

/// A node has one slot for each value of this many bits of a TID.
const BITS: u32 = 5;
/// Depth of the tree: a TID has 30 bits.
const LEVELS: u32 = TID_MASK.count_ones() / BITS;
const _: () = assert!(LEVELS * BITS == TID_MASK.count_ones());

/// A tree with a fixed depth. A hash map would stop all threads of the namespace while it grows.
pub enum Tids<T> {
    Empty,
    Node(Box<[Self]>),
    Value(T),
}

impl<T> Tids<T> {
    /// [`Error::Busy`] if the TID has a value; [`Error::NoMemory`].
    pub fn insert(&mut self, tid: u32, value: T) -> Result<(), Error> {
        let mut slot = &mut *self;
        for level in (0..LEVELS).rev() {
            if matches!(slot, Self::Empty) {
                let mut slots = Vec::new();
                if slots.try_reserve_exact(1 << BITS).is_err() {
                    self.remove(tid); // the nodes that this call has added
                    return Err(Error::NoMemory);
                }
                slots.resize_with(1 << BITS, || Self::Empty);
                *slot = Self::Node(slots.into_boxed_slice());
            }
            let Self::Node(node) = slot else { return Err(Error::Busy) };
            slot = &mut node[index(tid, level)];
        }
        if !matches!(slot, Self::Empty) {
            return Err(Error::Busy);
        }
        *slot = Self::Value(value);
        Ok(())
    }

    /// The value of a TID. A number that is no TID has none, whatever its lower bits are.
    pub fn get(&self, tid: u32) -> Option<&T> {
        if tid > TID_MASK {
            return None;
        }
        let mut slot = self;
        for level in (0..LEVELS).rev() {
            let Self::Node(node) = slot else { return None };
            slot = &node[index(tid, level)];
        }
        if let Self::Value(value) = slot { Some(value) } else { None }
    }

    pub fn first_from(&self, from: u32) -> Option<(u32, &T)> {
        if from > TID_MASK { None } else { self.first_below(from, LEVELS) }
    }

    fn first_below(&self, from: u32, levels: u32) -> Option<(u32, &T)> {
        let node = match self {
            Self::Empty => return None,
            Self::Value(value) => return Some((0, value)),
            Self::Node(node) => node,
        };
        let (level, first) = (levels - 1, index(from, levels - 1));
        node.iter().enumerate().skip(first).find_map(|(i, slot)| {
            // All TIDs in the slots behind the first are large enough.
            let (lower, value) = slot.first_below(if i == first { from } else { 0 }, level)?;
            Some(((i as u32) << (level * BITS) | lower, value))
        })
    }

    /// Removes the value of a TID, if it has one, and the nodes that become empty.
    pub fn remove(&mut self, tid: u32) {
        self.remove_below(tid, LEVELS);
    }

    fn remove_below(&mut self, tid: u32, levels: u32) {
        if let Self::Node(node) = self {
            node[index(tid, levels - 1)].remove_below(tid, levels - 1);
            if node.iter().any(|slot| !matches!(slot, Self::Empty)) {
                return;
            }
        }
        *self = Self::Empty;
    }
}

fn index(tid: u32, level: u32) -> usize {
    (tid >> (level * BITS)) as usize & ((1 << BITS) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn tids_are_found_until_they_are_removed(steps in prop::collection::vec((0..4u8, 0..6u32, 0..6u32), 0..100)) {
            let (mut tids, mut plain) = (Tids::Empty, HashMap::new());
            for (i, (what, upper, lower)) in steps.into_iter().enumerate() {
                let tid = ((upper << 27) | (lower * 31)) & TID_MASK;
                match what {
                    0 => {
                        plain.remove(&tid);
                        tids.remove(tid);
                    }
                    _ if plain.contains_key(&tid) => prop_assert_eq!(tids.insert(tid, i), Err(Error::Busy)),
                    _ => {
                        prop_assert_eq!(tids.insert(tid, i), Ok(()));
                        plain.insert(tid, i);
                    }
                }
                for tid in [0, 1, 31, 62, 1 << 27, TID_MASK].into_iter().chain(plain.keys().copied()) {
                    prop_assert_eq!(tids.get(tid), plain.get(&tid));
                }
                for from in [0, 1, 32, 1 << 27, TID_MASK, TID_MASK + 1].into_iter().chain(plain.keys().map(|tid| tid + 1)) {
                    let first = plain.iter().filter(|&(&tid, _)| tid >= from).min();
                    prop_assert_eq!(tids.first_from(from), first.map(|(&tid, value)| (tid, value)));
                }
                prop_assert_eq!(matches!(tids, Tids::Empty), plain.is_empty(), "empty nodes are freed");
            }
        }
    }
}
