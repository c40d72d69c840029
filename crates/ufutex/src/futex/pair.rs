//! Two buckets locked at once, for operations on two words.

use super::domain::{Domain, Hashed};
use crate::sys::park::yield_now;
use crate::table::bucket::Guard;
use crate::table::layout::Layout;
use crate::table::refs::{Locked, Scheme, Second};

/// The buckets of two words, which may be one.
pub(super) struct Pair<'d, S: Scheme<L>, L: Layout> {
    first: Locked<'d, L, S>,
    second: Option<Locked<'d, L, S>>,
    // Last: dropped when nothing is locked any more.
    turn: Turn,
}

/// Whether somebody slept for the second bucket, who has waited long enough to have lost the CPU, probably to us.
struct Turn(bool);

impl Drop for Turn {
    fn drop(&mut self) {
        if self.0 {
            yield_now();
        }
    }
}

impl<'d, S: Scheme<L>, L: Layout> Pair<'d, S, L> {
    /// Whether the words have buckets of their own.
    pub fn are_two(&self) -> bool {
        self.second.is_some()
    }

    /// The first word's bucket.
    pub fn first(&mut self) -> &mut Guard<'d, L> {
        &mut self.first.guard
    }

    /// The second word's.
    pub fn second(&mut self) -> &mut Guard<'d, L> {
        match &mut self.second {
            Some(second) => &mut second.guard,
            None => &mut self.first.guard,
        }
    }
}

impl<S: Scheme<L>, L: Layout> Drop for Pair<'_, S, L> {
    fn drop(&mut self) {
        if let Some(second) = self.second.take() {
            // With the first still locked we keep our CPU, and give it up afterwards: threads that do nothing else than
            // this, and more of them than CPUs, would leave others a turn every few milliseconds.
            self.turn.0 = second.unlock_and_stay();
        }
    }
}

impl<S: Scheme<L>, L: Layout> Domain<S, L> {
    /// Locks the buckets of both words.
    ///
    /// There is no order among buckets of several tables that every scheme could keep while a resize goes on. So the
    /// second is only tried; if somebody holds it we let go of the first, wait for that one, and try the first. Nobody
    /// waits for a bucket with another one locked, but for movers, who wait in order of index.
    pub(super) fn lock_pair(&self, first: &Hashed, second: &Hashed) -> Pair<'_, S, L> {
        loop {
            let locked = self.lock_or_make(first);
            match self.lock_second(second, &locked.guard) {
                Second::Locked(second) => return Pair { first: locked, second: Some(second), turn: Turn(false) },
                Second::Same => return Pair { first: locked, second: None, turn: Turn(false) },
                Second::Busy => drop(locked),
            }
            let locked = self.lock_or_make(second);
            match self.lock_second(first, &locked.guard) {
                Second::Locked(first) => return Pair { first, second: Some(locked), turn: Turn(false) },
                Second::Same => return Pair { first: locked, second: None, turn: Turn(false) },
                Second::Busy => drop(locked),
            }
        }
    }

    fn lock_second(&self, place: &Hashed, first: &Guard<'_, L>) -> Second<'_, L, S> {
        if place.shared_space.is_none() {
            return self.scheme.lock_second(&self.tables, place.hash, first);
        }
        Second::of(self.global_bucket(place.hash), first)
    }
}
