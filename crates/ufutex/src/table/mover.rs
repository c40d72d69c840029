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
use super::bucket::{Guard, Tried};
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
    /// How many buckets its table has.
    pub fn slots(self) -> usize {
        self.table().slots()
    }

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

/// What to do about a bucket that somebody else has locked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Locked {
    /// Leave the step for later: whoever holds the bucket may have lost its CPU.
    Skip,
    /// Wait for it.
    Wait,
}

/// Moves the keys of step `step`, unless that has been done before. `false`: not done, a bucket was locked.
///
/// Only the holder of the domain's resize lock calls this.
pub fn step<L: Layout>(from: Place<L>, to: Place<L>, step: usize, locked: Locked) -> bool {
    let steps = steps(from, to);
    match (from, to) {
        (Place::Private(from), Place::Private(to)) => private_to_private(from, to, step, steps, locked),
        (Place::Private(from), Place::Global(to, _)) => private_to_global(from, to, step, steps, locked),
        (Place::Global(from, space), Place::Private(to)) => global_to_private(from, space, to, step, steps, locked),
        (Place::Global(..), Place::Global(..)) => true,
    }
}

/// The first step that has not been taken. Only the holder of the domain's resize lock gets a definite answer.
pub fn first_left<L: Layout>(from: Place<L>, to: Place<L>) -> Option<usize> {
    let steps = steps(from, to);
    (0..steps).find(|&step| match (from, to) {
        (Place::Private(from), _) => !is_done(from, &slots_of(from, step, steps)),
        (Place::Global(..), Place::Private(to)) => !to.slot(slots_of(to, step, steps).start).is_live(),
        (Place::Global(..), Place::Global(..)) => false,
    })
}

/// Waits until each bucket that step `step` has to lock has been free for a moment, or is not live any more.
pub fn wait_for<L: Layout>(from: Place<L>, to: Place<L>, step: usize) {
    slots_of(from.table(), step, steps(from, to)).for_each(|slot| drop(from.table().slot(slot).lock_to_move()));
}

/// The slots of `table` whose keys belong to `step`.
fn slots_of<L: Layout>(table: Table<L>, step: usize, steps: usize) -> Range<usize> {
    let ratio = table.slots() / steps;
    step * ratio..(step + 1) * ratio
}

/// Whether a step from a private table has been taken: its sources are live until then.
fn is_done<L: Layout>(from: Table<L>, sources: &Range<usize>) -> bool {
    !from.slot(sources.start).is_live()
}

fn private_to_private<L: Layout>(from: Table<L>, to: Table<L>, step: usize, steps: usize, locked: Locked) -> bool {
    let (sources, targets) = (slots_of(from, step, steps), slots_of(to, step, steps));
    if is_done(from, &sources) {
        return true;
    }
    // Page faults of a fresh table happen here, not while others wait for a source's lock.
    targets.clone().for_each(|slot| to.slot(slot).touch());
    if mutant(Mutant::TargetLiveEarly) {
        targets.clone().for_each(|slot| to.slot(slot).make_live());
    }
    if !lock_all(from, sources.clone(), locked) {
        return false;
    }
    for slot in sources.clone() {
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
    retire_all(from, sources);
    true
}

fn private_to_global<L: Layout>(from: Table<L>, global: Table<L>, step: usize, steps: usize, locked: Locked) -> bool {
    let sources = slots_of(from, step, steps);
    if is_done(from, &sources) {
        return true;
    }
    if !lock_all(from, sources.clone(), locked) {
        return false;
    }
    for slot in sources.clone() {
        // SAFETY: `lock_all` left it locked, and we are the one mover.
        let mut source = unsafe { from.slot(slot).resume() };
        while let Some(ring) = source.pop_ring() {
            let mut target = lock_live(global, global.index(ring.hash));
            // SAFETY: the ring's key had its only live bucket in `from`, so nobody waits for it in `global`.
            unsafe { target.push_ring(ring) };
            target.unlock_and_stay();
        }
        source.suspend();
    }
    retire_all(from, sources);
    true
}

fn global_to_private<L: Layout>(
    global: Table<L>,
    space: u64,
    to: Table<L>,
    step: usize,
    steps: usize,
    locked: Locked,
) -> bool {
    let (sources, targets) = (slots_of(global, step, steps), slots_of(to, step, steps));
    if to.slot(targets.start).is_live() {
        return true;
    }
    targets.clone().for_each(|slot| to.slot(slot).touch());
    if !lock_all(global, sources.clone(), locked) {
        return false;
    }
    for slot in sources.clone() {
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
    unlock_all(global, sources);
    true
}

/// Locks these slots, in order, and leaves them locked: there may be many, and no memory is to be had at a moment when
/// it could be refused. `false`: one was locked by somebody else, and none is now.
fn lock_all<L: Layout>(table: Table<L>, slots: Range<usize>, locked: Locked) -> bool {
    for slot in slots.clone() {
        let guard = match locked {
            Locked::Wait => Some(lock_live(table, slot)),
            Locked::Skip => match table.slot(slot).try_lock() {
                Tried::Locked(guard) => Some(guard),
                Tried::Busy | Tried::NotLive => None,
            },
        };
        match guard {
            Some(guard) => guard.suspend(),
            None => {
                unlock_all(table, slots.start..slot);
                return false;
            }
        }
    }
    true
}

/// Unlocks these slots, which `lock_all` locked; they are as live as before.
fn unlock_all<L: Layout>(table: Table<L>, slots: Range<usize>) {
    for slot in slots {
        // SAFETY: locked by `lock_all`, and we are the one mover.
        unsafe { table.slot(slot).resume() }.unlock_and_stay();
    }
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
        if let Some(guard) = table.slot(slot).lock_to_move() {
            return guard;
        }
        debug_assert!(false, "slot {slot} of the table in use is not live");
    }
}
