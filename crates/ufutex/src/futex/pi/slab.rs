//! Values by number, in memory whose lack is an error and not a panic.

use alloc::vec::Vec;
use core::marker::PhantomData;

use crate::error::Error;

/// The number of a `T` in its slab.
pub struct Id<T>(u32, PhantomData<fn() -> T>);

impl<T> Clone for Id<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Id<T> {}

impl<T> PartialEq for Id<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}
impl<T> Eq for Id<T> {}

impl<T> core::fmt::Debug for Id<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "#{}", self.0)
    }
}

enum Slot<T> {
    Used(T),
    /// The next that is free.
    Free(Option<Id<T>>),
}

/// See the top of this file.
pub struct Slab<T> {
    slots: Vec<Slot<T>>,
    free: Option<Id<T>>,
}

impl<T> Slab<T> {
    pub const fn new() -> Self {
        Self { slots: Vec::new(), free: None }
    }

    pub fn insert(&mut self, value: T) -> Result<Id<T>, Error> {
        if let Some(id) = self.free {
            let slot = &mut self.slots[id.0 as usize];
            if let Slot::Free(next) = *slot {
                self.free = next;
            }
            *slot = Slot::Used(value);
            return Ok(id);
        }
        let id = Id(u32::try_from(self.slots.len()).map_err(|_| Error::NoMemory)?, PhantomData);
        self.slots.try_reserve(1).map_err(|_| Error::NoMemory)?;
        self.slots.push(Slot::Used(value));
        Ok(id)
    }

    pub fn remove(&mut self, id: Id<T>) {
        self.slots[id.0 as usize] = Slot::Free(self.free);
        self.free = Some(id);
    }
}

impl<T> core::ops::Index<Id<T>> for Slab<T> {
    type Output = T;

    fn index(&self, id: Id<T>) -> &T {
        match &self.slots[id.0 as usize] {
            Slot::Used(value) => value,
            Slot::Free(_) => unreachable!("an id is given back with the last use of it"),
        }
    }
}

impl<T> core::ops::IndexMut<Id<T>> for Slab<T> {
    fn index_mut(&mut self, id: Id<T>) -> &mut T {
        match &mut self.slots[id.0 as usize] {
            Slot::Used(value) => value,
            Slot::Free(_) => unreachable!("an id is given back with the last use of it"),
        }
    }
}
