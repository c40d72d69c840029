//! A slab: values by number, and lists of them. Running out of memory is an error and not a panic.

use alloc::vec::Vec;
use core::marker::PhantomData;

use crate::error::Error;

/// Names a `T` by its index in a slab.
pub type Id<T> = (u32, PhantomData<fn() -> T>);

pub(super) enum Slot<T> {
    Used(T),
    /// Free. The value is the next free slot, `None` for the last.
    Free(Option<u32>),
}

/// log2 of the number of slots in a chunk. The last chunk may have fewer, and grows to this size.
const CHUNK_LOG2: u32 = 6;
const CHUNK: usize = 1 << CHUNK_LOG2;

/// Grows by a chunk and does not move the values in full chunks, so the time of an insertion does not depend on their number.
pub struct Slab<T> {
    pub(super) chunks: Vec<Vec<Slot<T>>>,
    free: Option<u32>,
    used: u32,
}

impl<T> Slab<T> {
    pub const fn new() -> Self {
        Self { chunks: Vec::new(), free: None, used: 0 }
    }

    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    pub fn insert(&mut self, value: T) -> Result<Id<T>, Error> {
        let index = if let Some(index) = self.free {
            if let Slot::Free(next) = core::mem::replace(self.slot_mut(index), Slot::Used(value)) {
                self.free = next;
            }
            index
        } else {
            // No slot is free, so `used` is the number of slots, and the index of the next.
            let (chunk, _) = place(self.used);
            if chunk == self.chunks.len() {
                self.chunks.try_reserve(1).map_err(|_| Error::NoMemory)?;
                self.chunks.push(Vec::new());
            }
            let slots = &mut self.chunks[chunk];
            slots.try_reserve(1).map_err(|_| Error::NoMemory)?;
            slots.push(Slot::Used(value));
            self.used
        };
        self.used += 1;
        Ok((index, PhantomData))
    }

    pub fn remove(&mut self, id: Id<T>) {
        *self.slot_mut(id.0) = Slot::Free(self.free);
        self.free = Some(id.0);
        self.used -= 1;
    }

    #[inline(always)]
    fn slot_mut(&mut self, index: u32) -> &mut Slot<T> {
        let (chunk, offset) = place(index);
        &mut self.chunks[chunk][offset]
    }
}

/// The index of a slot's chunk, and the slot's index in the chunk.
#[inline(always)]
fn place(index: u32) -> (usize, usize) {
    ((index >> CHUNK_LOG2) as usize, index as usize % CHUNK)
}

impl<T> core::ops::Index<Id<T>> for Slab<T> {
    type Output = T;

    #[inline(always)]
    fn index(&self, id: Id<T>) -> &T {
        let (chunk, offset) = place(id.0);
        let Slot::Used(value) = &self.chunks[chunk][offset] else {
            unreachable!("an ID is not used after it is given back")
        };
        value
    }
}

impl<T> core::ops::IndexMut<Id<T>> for Slab<T> {
    #[inline(always)]
    fn index_mut(&mut self, id: Id<T>) -> &mut T {
        let Slot::Used(value) = self.slot_mut(id.0) else { unreachable!("an ID is not used after it is given back") };
        value
    }
}

/// A doubly linked list of values of a slab. A value with several [`Neighbours`] can be in several lists.
pub struct List<T> {
    pub first: Option<Id<T>>,
    pub last: Option<Id<T>>,
    pub len: usize,
}

pub struct Neighbours<T> {
    prev: Option<Id<T>>,
    next: Option<Id<T>>,
}

impl<T> Neighbours<T> {
    pub const NONE: Self = Self { prev: None, next: None };
}

impl<T> List<T> {
    pub const fn new() -> Self {
        Self { first: None, last: None, len: 0 }
    }

    pub fn push(&mut self, slab: &mut Slab<T>, id: Id<T>, links: impl Fn(&mut T) -> &mut Neighbours<T>) {
        let prev = self.last.replace(id);
        *links(&mut slab[id]) = Neighbours { prev, next: None };
        match prev {
            Some(prev) => links(&mut slab[prev]).next = Some(id),
            None => self.first = Some(id),
        }
        self.len += 1;
    }

    pub fn remove(&mut self, slab: &mut Slab<T>, id: Id<T>, links: impl Fn(&mut T) -> &mut Neighbours<T>) {
        let Neighbours { prev, next } = *links(&mut slab[id]);
        match prev {
            Some(prev) => links(&mut slab[prev]).next = next,
            None => self.first = next,
        }
        match next {
            Some(next) => links(&mut slab[next]).prev = prev,
            None => self.last = prev,
        }
        self.len -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_their_ids_while_others_come_and_go() {
        let mut slab = Slab::new();
        let ids: Vec<_> = (0..1000).map(|value| slab.insert(value).unwrap()).collect();
        assert!(ids.iter().enumerate().all(|(i, id)| id.0 as usize == i));
        ids.iter().step_by(3).for_each(|&id| slab.remove(id));
        assert!(ids.iter().enumerate().filter(|(i, _)| i % 3 != 0).all(|(i, &id)| slab[id] == i));
        let again: Vec<_> = (0..334).map(|_| slab.insert(7).unwrap()).collect();
        assert!(again.iter().all(|id| id.0 % 3 == 0), "free slots are used first");
        let last = slab.insert(8).unwrap();
        assert_eq!(last.0, 1000);
        ids.iter().chain([&last]).for_each(|&id| slab.remove(id));
        assert!(slab.is_empty());
    }
}
