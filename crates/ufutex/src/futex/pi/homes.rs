//! The memory of a namespace's homes and regions, the only thing here that all of its domains share. The time that its lock
//! is held does not grow with the number of homes.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::num::NonZeroU32;
use core::ptr::NonNull;

use super::graph::Graph;
use super::region::{Home, HomeRef, Region, Regions};
use crate::error::Error;
use crate::lock::Lock;
use crate::sys::platform::PlatformRef;

/// See the top of this file. Homes and regions are made in pairs, so for each home in use there is a region. Both are
/// freed with the namespace only. So a pointer to one may be stale, but always points to valid memory.
pub struct Homes {
    inner: Lock<Inner>,
}

struct Inner {
    on: PlatformRef,
    /// The pair made last.
    made: Option<NonNull<Pair>>,
    count: u32,
    // Each vector has capacity for all homes or regions made so far.
    free_homes: Vec<HomeRef>,
    free_regions: Vec<NonNull<Region>>,
}

/// A home and a region made together. They need not belong together any more.
struct Pair {
    home: Home,
    region: Region,
    /// The pair made before this one.
    next: Option<NonNull<Pair>>,
}

// SAFETY: it owns its pairs, whose fields are `Sync` and `Send`.
unsafe impl Send for Inner {}

impl Homes {
    pub fn new(on: PlatformRef) -> Self {
        let inner = Inner { on, made: None, count: 0, free_homes: Vec::new(), free_regions: Vec::new() };
        Self { inner: Lock::new(on, inner) }
    }

    /// Takes a free home and a free region of `regions`, which these homes are part of. `graph` makes the empty graph of a
    /// new region.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn take_both(
        &self,
        regions: NonNull<Regions>,
        graph: impl FnOnce() -> Graph<super::EntryRef, HomeRef>,
    ) -> Result<(HomeRef, NonNull<Region>), Error> {
        self.inner.lock().with(|inner| {
            // There may be one without the other: a home is given back before the region that it had.
            if inner.free_homes.is_empty() || inner.free_regions.is_empty() {
                inner.make(regions, graph())?;
            }
            inner.free_homes.pop().zip(inner.free_regions.pop()).ok_or(Error::NoMemory)
        })
    }

    /// Takes a free region, if there is one.
    pub fn take_region(&self) -> Option<NonNull<Region>> {
        self.inner.lock().with(|inner| inner.free_regions.pop())
    }

    /// Makes the region free.
    pub fn give_back_region(&self, region: NonNull<Region>) {
        self.inner.lock().with(|inner| inner.free_regions.push(region));
    }

    /// Makes the home free.
    pub fn give_back_home(&self, home: HomeRef) {
        self.inner.lock().with(|inner| inner.free_homes.push(home));
    }
}

impl Inner {
    fn make(&mut self, regions: NonNull<Regions>, mut graph: Graph<super::EntryRef, HomeRef>) -> Result<(), Error> {
        let count = self.count.checked_add(1).ok_or(Error::NoMemory)?;
        let number = NonZeroU32::new(count).ok_or(Error::NoMemory)?;
        // A free region's graph has room for one part, so that moving a part there needs no memory.
        graph.make_room()?;
        self.free_homes.try_reserve(count as usize).map_err(|_| Error::NoMemory)?;
        self.free_regions.try_reserve(count as usize).map_err(|_| Error::NoMemory)?;
        let mut memory = Vec::new();
        memory.try_reserve_exact(1).map_err(|_| Error::NoMemory)?;
        memory.push(Pair { home: Home::new(number, regions), region: Region::new(self.on, graph), next: self.made });
        let pair = NonNull::from(Box::leak(memory.into_boxed_slice())).cast::<Pair>();
        // SAFETY: just made; it lives as long as `self`.
        let made = unsafe { pair.as_ref() };
        self.free_homes.push(HomeRef::new(&made.home));
        self.free_regions.push(NonNull::from(&made.region));
        (self.made, self.count) = (Some(pair), count);
        Ok(())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        while let Some(pair) = self.made {
            // SAFETY: leaked by `make` as a slice of one. `self` is being dropped, so nothing uses the pair any more.
            let pair = unsafe { Box::from_raw(NonNull::slice_from_raw_parts(pair, 1).as_ptr()) };
            self.made = pair[0].next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::futex::pi::graph::Changes;

    #[test]
    fn home_that_is_free_before_its_region_is_taken_with_another_region() {
        let homes = Homes::new(PlatformRef::HOST);
        let take = || homes.take_both(NonNull::dangling(), || Graph::new(8, Changes::Ignored));
        let (home, region) = take().expect("there is memory");
        homes.give_back_home(home);
        let (_, other) = take().expect("there is memory");
        assert_ne!(region, other);
    }
}
