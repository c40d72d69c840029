//! Moving waiters from one table to another, bucket by bucket: the pivot of every scheme.
//!
//! Invariant: for every key exactly one bucket is live. The mover holds the locks of all buckets where some keys are
//! live from before it makes their new buckets live until after the old ones are not. Between the two both are live,
//! and that is harmless: the new bucket is complete by then, and whoever wants the old one waits for its lock and then
//! finds it not live.
//!
//! Lock order: buckets of a private table in order of index, then buckets of the global table in order of index. Only
//! the one mover of a domain holds more than one.

use core::ops::Range;

use super::Table;
use super::bucket::Guard;
use super::layout::Layout;
use crate::sync::{Mutant, mutant};

/// Where a domain's private keys live.
pub enum Place<L: Layout> {
    /// A table of its own.
    Private(Table<L>),
    /// The table of the `System`, where the domain's keys have this space.
    Global(Table<L>, u64),
}

impl<L: Layout> Clone for Place<L> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<L: Layout> Copy for Place<L> {}

impl<L: Layout> Place<L> {
    fn table(self) -> Table<L> {
        match self {
            Self::Private(table) | Self::Global(table, _) => table,
        }
    }
}

/// How many steps a move from `from` to `to` takes. The keys of step `i` are those in slot `i` of the smaller table.
pub fn steps<L: Layout>(from: Place<L>, to: Place<L>) -> usize {
    from.table().slots().min(to.table().slots())
}

/// Moves the keys of step `step`.
///
/// Only the holder of the domain's resize lock calls this, once for each step of a move.
pub fn step<L: Layout>(from: Place<L>, to: Place<L>, step: usize) {
    let steps = steps(from, to);
    match (from, to) {
        (Place::Private(from), Place::Private(to)) => private_to_private(from, to, step, steps),
        (Place::Private(from), Place::Global(to, _)) => private_to_global(from, to, step, steps),
        (Place::Global(from, space), Place::Private(to)) => {
            global_to_private(from, space, to, step, steps);
        }
        (Place::Global(..), Place::Global(..)) => {}
    }
}

/// The slots of `table` whose keys belong to `step`.
fn slots_of<L: Layout>(table: Table<L>, step: usize, steps: usize) -> Range<usize> {
    let ratio = table.slots() / steps;
    step * ratio..(step + 1) * ratio
}

fn private_to_private<L: Layout>(from: Table<L>, to: Table<L>, step: usize, steps: usize) {
    let targets = slots_of(to, step, steps);
    // Page faults of a fresh table happen here, not while others wait for a source's lock.
    targets.clone().for_each(|slot| to.slot(slot).touch());
    if mutant(Mutant::TargetLiveEarly) {
        targets.clone().for_each(|slot| to.slot(slot).make_live());
    }
    lock_all(from, slots_of(from, step, steps));
    for slot in slots_of(from, step, steps) {
        // SAFETY: `lock_all` left it locked, and we are the one mover.
        let mut source = unsafe { from.slot(slot).resume() };
        while let Some(ring) = source.pop_ring() {
            // SAFETY: the target is not live, or its keys could be found in two places; `source` is locked.
            unsafe { to.bucket(ring.hash).adopt(ring) };
        }
        source.suspend();
    }
    if !mutant(Mutant::TargetLiveEarly) {
        targets.for_each(|slot| to.slot(slot).make_live());
    }
    retire_all(from, slots_of(from, step, steps));
}

fn private_to_global<L: Layout>(from: Table<L>, global: Table<L>, step: usize, steps: usize) {
    lock_all(from, slots_of(from, step, steps));
    for slot in slots_of(from, step, steps) {
        // SAFETY: `lock_all` left it locked, and we are the one mover.
        let mut source = unsafe { from.slot(slot).resume() };
        while let Some(ring) = source.pop_ring() {
            let mut target = lock_live(global, global.index(ring.hash));
            // SAFETY: the ring's key had its only live bucket in `from`, so nobody waits for it in `global`.
            unsafe { target.push_ring(ring) };
        }
        source.suspend();
    }
    retire_all(from, slots_of(from, step, steps));
}

fn global_to_private<L: Layout>(global: Table<L>, space: u64, to: Table<L>, step: usize, steps: usize) {
    let targets = slots_of(to, step, steps);
    targets.clone().for_each(|slot| to.slot(slot).touch());
    lock_all(global, slots_of(global, step, steps));
    for slot in slots_of(global, step, steps) {
        // SAFETY: `lock_all` left it locked, and we are the one mover.
        let mut source = unsafe { global.slot(slot).resume() };
        while let Some(ring) = source.pop_ring_if(|key| key.space == space) {
            // SAFETY: the target is not live, or its keys could be found in two places; `source` is locked.
            let moved = unsafe { to.bucket(ring.hash).adopt(ring) };
            source.moved_away(moved);
        }
        source.suspend();
    }
    targets.for_each(|slot| to.slot(slot).make_live());
    for slot in slots_of(global, step, steps) {
        // SAFETY: still locked from above; the global table's buckets stay live for everybody else.
        drop(unsafe { global.slot(slot).resume() });
    }
}

/// Locks these slots, in order, and leaves them locked: there may be many, and no memory is to be had at a moment when
/// it could be refused.
fn lock_all<L: Layout>(table: Table<L>, slots: Range<usize>) {
    slots.for_each(|slot| lock_live(table, slot).suspend());
}

/// Makes these slots, which `lock_all` locked, not live, and unlocks them.
fn retire_all<L: Layout>(table: Table<L>, slots: Range<usize>) {
    for slot in slots {
        // SAFETY: locked by `lock_all`, and we are the one mover.
        unsafe { table.slot(slot).resume() }.retire();
    }
}

/// Locks a slot of the table in use: only the mover could have made it not live.
fn lock_live<'a, L: Layout>(table: Table<L>, slot: usize) -> Guard<'a, L> {
    loop {
        if let Some(guard) = table.slot(slot).lock() {
            return guard;
        }
        debug_assert!(false, "slot {slot} of the table in use is not live");
    }
}
