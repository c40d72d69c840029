//! Objects that domains of several PID namespaces map. Each has a table of its own: namespaces that share none share no bucket.
//!
//! An object's number names a *place* in the system's list of them, and a generation. Places and their tables are freed with
//! the system only, so any number can be looked up without a lock. When an object is dropped, its place is used again, with a
//! new generation. So words of the old and the new object are different keys of one table.

use alloc::vec::Vec;
use core::ptr::null_mut;

use super::system::System;
use crate::error::Error;
use crate::sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use crate::sys::lazy::Lazy;
use crate::sys::mem::ObjectId;
use crate::sys::platform::PlatformRef;
use crate::sys::topology::Nodes;
use crate::table::Table;
use crate::table::bucket::Bucket;
use crate::table::size::SMALLEST_LOG2;
use crate::table::store::{free, make, make_all_live};

/// An object that domains of several [`PidNamespace`](crate::PidNamespace)s map, such as a file or a piece of shared
/// memory. Its [`id`](Self::id) names it in [`Scope::Object`](crate::Scope::Object).
///
/// It has a table of its own, of 16 slots (1 KiB), so that guests which share it wait for each other only in operations on its
/// words. An object that only one namespace maps needs none: its number can be any below 2^61: see [`ObjectId`]. All domains
/// must name the object by this ID from the first wait on, so make it before any namespace uses the object, if a second one may
/// map it later. After its drop, operations with its ID still meet each other, and no other object gets it.
///
/// ```
/// use std::{pin::pin, sync::atomic::AtomicU32, task::Waker};
/// use ufutex::{Domain, DomainOptions, At, PidNamespace, SharedObject, System, WaitOptions, Waiter};
///
/// let system = System::new();
/// let object = SharedObject::new(&system)?;
/// let [one, other] = [PidNamespace::new(&system)?, PidNamespace::new(&system)?];
/// let [one, other]: [Domain; 2] = [&one, &other].map(|guest| Domain::in_namespace(guest, DomainOptions::new()));
///
/// let memory = AtomicU32::new(0); // which one guest maps at one address, and the other at another
/// let word = At::object(&memory, object.id(), 0);
/// let mut waiter = pin!(Waiter::new());
/// let queued = one.prepare_with(waiter.as_mut(), word, 0, &WaitOptions::new(), Waker::noop().clone())?;
/// assert_eq!(other.wake(word, 1), 1);
/// # drop(queued);
/// # Ok::<(), ufutex::Error>(())
/// ```
pub struct SharedObject {
    id: ObjectId,
    /// `None` when [`into_id`](Self::into_id) keeps the object.
    system: Option<System>,
}

impl SharedObject {
    /// An object of the system.
    ///
    /// # Errors
    /// [`Error::NoMemory`], also if the system has 2^24 such objects.
    pub fn new(system: &System) -> Result<Self, Error> {
        let id = system.inner.objects.take(system.platform(), system.current_node())?;
        Ok(Self { id, system: Some(system.clone()) })
    }

    /// The object's ID, which no other object of the system has.
    #[must_use]
    pub fn id(&self) -> ObjectId {
        self.id
    }

    /// Keeps the object without a handle, until [`free`](Self::free) is called.
    #[must_use = "to free the object"]
    pub fn into_id(mut self) -> ObjectId {
        self.system = None;
        self.id
    }

    /// Frees an object by the ID that [`into_id`](Self::into_id) returned, as the drop of its handle would.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the system has no such object, or has none any more.
    pub fn free(system: &System, id: ObjectId) -> Result<(), Error> {
        if system.inner.objects.give_back(id) { Ok(()) } else { Err(Error::Invalid) }
    }
}

impl Drop for SharedObject {
    fn drop(&mut self) {
        if let Some(system) = &self.system {
            system.inner.objects.give_back(self.id);
        }
    }
}

impl core::fmt::Debug for SharedObject {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("SharedObject").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Number of bits of an object's number that say its place. The bits above them are the generation.
const PLACE_BITS: u32 = 24;
const GENERATION_BITS: u32 = ObjectId::BITS - PLACE_BITS;
/// log2 of the number of places in the first chunk. Each further chunk is twice as large.
const FIRST_LOG2: u32 = 4;

pub(crate) struct Objects {
    chunks: [Lazy<Vec<ObjectPlace>>; (PLACE_BITS - FIRST_LOG2) as usize],
    /// The index at which the next search for a free place begins. A hint.
    next: AtomicU32,
    nodes: Nodes,
}

#[derive(Default)]
struct ObjectPlace {
    /// Null until it is made, for the first object.
    table: AtomicPtr<Bucket>,
    /// The generation in the upper bits. The lowest bit says that an object has the place.
    state: AtomicU64,
}

const TAKEN: u64 = 1;

impl Objects {
    pub fn new(nodes: Nodes) -> Self {
        Self { chunks: core::array::from_fn(|_| Lazy::new()), next: AtomicU32::new(0), nodes }
    }

    /// The table of the object with this number, if it is, or was, a [`SharedObject`]'s.
    #[inline]
    pub fn table(&self, id: ObjectId) -> Option<Table> {
        let number = id.of_system()?;
        let raw = self.place(index_of(number))?.table.load(Ordering::Acquire); // [F]
        // SAFETY: `take` stores only tables, which are valid as long as `self`.
        (!raw.is_null()).then(|| unsafe { Table::from_raw(raw) })
    }

    pub fn tables(&self) -> impl Iterator<Item = Table> {
        let places = self.chunks.iter().map_while(Lazy::get).flatten();
        (0..places.count() as u64).filter_map(|index| self.table(ObjectId::system(index)))
    }

    fn place(&self, index: u32) -> Option<&ObjectPlace> {
        let from_one = index as usize + (1 << FIRST_LOG2);
        let log2 = from_one.ilog2();
        self.chunks.get((log2 - FIRST_LOG2) as usize)?.get()?.get(from_one - (1 << log2))
    }

    fn take(&self, on: PlatformRef, node: u32) -> Result<ObjectId, Error> {
        let (index, place, state) = loop {
            // Counted before the search: what another thread adds meanwhile has to be searched too.
            let made = self.chunks.iter().map_while(Lazy::get).count();
            match self.find_free() {
                Some(found) => break found,
                None => self.add_chunk(made)?,
            }
        };
        if place.table.load(Ordering::Relaxed).is_null() && !self.make_table(place, on, node) {
            self.free(index, place, state);
            return Err(Error::NoMemory);
        }
        Ok(ObjectId::system(number_of(state, index)))
    }

    /// Makes the table of a place. `false` if there is no memory.
    fn make_table(&self, place: &ObjectPlace, on: PlatformRef, node: u32) -> bool {
        let Some(table) = make(SMALLEST_LOG2, on, self.nodes.memory(), node) else { return false };
        make_all_live(table);
        // An object that had the place before may have made a table that this thread has not seen.
        if place.table.compare_exchange(null_mut(), table.into_raw(), Ordering::Release, Ordering::Relaxed).is_err() {
            // [F]
            // SAFETY: just made in this memory, and no other thread knows it.
            unsafe { free(table, self.nodes.memory()) };
        }
        true
    }

    /// Takes a free place. Returns its index, the place, and its state.
    fn find_free(&self) -> Option<(u32, &ObjectPlace, u64)> {
        let first = self.next.load(Ordering::Relaxed);
        let try_take = |index| self.place(index).map(|place| Some((index, place, self.try_take(place)?)));
        let found = (first..).map_while(try_take).chain((0..first).map_while(try_take)).flatten().next()?;
        // Unless a lower place has become free meanwhile.
        let _ = self.next.compare_exchange(first, found.0 + 1, Ordering::Relaxed, Ordering::Relaxed);
        Some(found)
    }

    /// Makes a chunk behind the `made` first ones, unless another thread has.
    fn add_chunk(&self, made: usize) -> Result<(), Error> {
        let places = || {
            let mut places = Vec::new();
            places.try_reserve_exact(1 << FIRST_LOG2 << made).map_err(|_| Error::NoMemory)?;
            places.resize_with(1 << FIRST_LOG2 << made, ObjectPlace::default);
            Ok(places)
        };
        self.chunks.get(made).ok_or(Error::NoMemory)?.get_or_make(places).map(drop)
    }

    /// Takes the place if it is free and has a generation left: no two objects have one number. Returns its state.
    fn try_take(&self, place: &ObjectPlace) -> Option<u64> {
        let state = place.state.load(Ordering::Relaxed);
        if state & TAKEN != 0 || state >> 1 >= 1 << GENERATION_BITS {
            return None;
        }
        place.state.compare_exchange(state, state | TAKEN, Ordering::Relaxed, Ordering::Relaxed).ok()?;
        Some(state | TAKEN)
    }

    /// Makes the object's place free. `false` if the object does not have it.
    fn give_back(&self, id: ObjectId) -> bool {
        let Some(number) = id.of_system() else { return false };
        let index = index_of(number);
        let Some(place) = self.place(index) else { return false };
        let state = place.state.load(Ordering::Relaxed);
        state & TAKEN != 0 && number_of(state, index) == number && self.free(index, place, state)
    }

    /// Makes a place free whose state is `state`. `false` if the state has changed.
    fn free(&self, index: u32, place: &ObjectPlace, state: u64) -> bool {
        let is_freed = place.state.compare_exchange(state, state + TAKEN, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if is_freed {
            self.next.fetch_min(index, Ordering::Relaxed);
        }
        is_freed
    }
}

impl Drop for Objects {
    fn drop(&mut self) {
        for table in self.tables() {
            // SAFETY: `make_table` made it in this memory. The system drops its objects when no thread uses them any more.
            unsafe { free(table, self.nodes.memory()) };
        }
    }
}

fn number_of(state: u64, index: u32) -> u64 {
    (state >> 1) << PLACE_BITS | u64::from(index)
}

fn index_of(number: u64) -> u32 {
    (number & ((1 << PLACE_BITS) - 1)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_place_is_taken_before_a_chunk_is_made() {
        let system = System::new();
        let object = || SharedObject::new(&system).expect("there is memory");
        let tables = || system.inner.objects.tables().count();
        let mut all: Vec<_> = (0..1 << FIRST_LOG2).map(|_| object()).collect();
        let gone = all.remove(3).id();
        // As a thread leaves it that has taken the last place meanwhile.
        system.inner.objects.next.store(1 << FIRST_LOG2, Ordering::Relaxed);
        all.push(object());
        assert!(tables() == 1 << FIRST_LOG2 && all.iter().all(|object| object.id() != gone));
        all.push(object());
        assert_eq!(tables(), (1 << FIRST_LOG2) + 1);
    }
}
