//! Moving waiters from one table to another, bucket by bucket: the pivot.
//!
//! In a step between two private tables, old and new buckets are live at once for a moment. That is harmless: the new ones are
//! complete by then, and an operation that wants an old one waits for its lock and finds it not live.
//!
//! A step to or from the global table keeps one private bucket live and locked throughout, and locks global buckets one at a
//! time, each for at most [`PIECE`] waiters. So operations on its keys wait for the private bucket. None looks in a global one,
//! although some of the waiters are there already, or still.

use core::ops::{Range, RangeInclusive};

use super::Table;
use super::bucket::Guard;
use super::tables::Current;

/// The number of waiters that are moved to or from a global bucket before it is unlocked for other threads.
const PIECE: usize = 64;

/// A move of a domain's private keys between two tables, of which at most one is global.
#[derive(Clone, Copy)]
pub struct Move {
    pub from: Table,
    pub to: Table,
    pub is_from_global: bool,
    pub is_to_global: bool,
    pub space: u64,
}

/// What the mover does about a bucket that another thread has locked.
#[derive(Clone, Copy)]
pub enum IfLocked {
    /// Leave the step for later: the thread that holds the bucket may have lost its CPU.
    Skip,
    Wait,
}

impl Move {
    pub fn target(self) -> Current {
        if self.is_to_global { Current::Global } else { Current::Private(self.to) }
    }

    /// The table of whose slots each is a step: the private one, or the smaller of two.
    fn steps_in(self) -> Table {
        let is_from = self.is_to_global || !self.is_from_global && self.from.slots() < self.to.slots();
        if is_from { self.from } else { self.to }
    }

    pub fn steps(self) -> usize {
        self.steps_in().slots()
    }

    /// The slots of `table`, one of the two, that can hold keys of `step`. There is at least one.
    fn slots_of(self, table: Table, step: usize) -> Range<usize> {
        let hashes = self.steps_in().hashes_of(step);
        table.index(*hashes.start())..table.index(*hashes.end()) + 1
    }

    /// Moves the keys of `step`, if that has not been done. `false`: a bucket was locked. The caller holds the resize lock.
    pub fn step(self, step: usize, locked: IfLocked) -> bool {
        if self.is_done(step) {
            return true;
        }
        match self {
            Self { is_to_global: true, .. } => self.private_to_global(step, locked),
            Self { is_from_global: true, .. } => self.global_to_private(step, locked),
            _ => self.private_to_private(step, locked),
        }
    }

    /// Whether a step has been taken. Then its sources in a private table are no longer live. If the source is global, the
    /// target is live.
    fn is_done(self, step: usize) -> bool {
        if self.is_from_global {
            return self.to.slot(step).is_live();
        }
        !self.from.slot(self.slots_of(self.from, step).start).is_live()
    }

    /// The first step that has not been taken. The result is reliable only for the holder of the domain's resize lock.
    pub fn first_left(self) -> Option<usize> {
        (0..self.steps()).find(|&step| !self.is_done(step))
    }

    /// Whether a bucket that `step` only tries to lock is locked at this moment.
    pub fn is_locked(self, step: usize) -> bool {
        let tried = if self.is_from_global { 1 } else { usize::MAX };
        self.slots_of(self.from, step).take(tried).any(|slot| self.from.slot(slot).is_locked())
    }

    fn private_to_private(self, step: usize, locked: IfLocked) -> bool {
        let Self { from, to, .. } = self;
        let (sources, targets) = (self.slots_of(from, step), self.slots_of(to, step));
        // Takes the page faults of a new table here, while no source is locked.
        targets.clone().for_each(|slot| to.slot(slot).touch());

        if !lock_all(from, sources.clone(), locked) {
            return false;
        }
        for slot in sources.clone() {
            // SAFETY: `lock_all` left it locked, and this is the only mover.
            let mut source = unsafe { from.slot(slot).resume() };
            while let Some((node, hash)) = source.any_head() {
                // SAFETY: the target is not live, or its keys could be found in two places. The node is queued in `source`.
                unsafe {
                    let mut target = to.bucket(hash).resume();
                    source.pass(node, &mut target);
                    target.suspend();
                }
            }
            source.suspend();
        }
        targets.for_each(|slot| to.slot(slot).make_live());
        for slot in sources {
            // SAFETY: as above.
            unsafe { from.slot(slot).resume() }.retire();
        }
        true
    }

    fn private_to_global(self, step: usize, locked: IfLocked) -> bool {
        let Some(mut source) = lock_one(self.from, step, locked) else { return false };
        while let Some((_, hash)) = source.any_head() {
            debug_assert!(source.first_in(self.space, hash..=hash).is_some(), "it has private keys alone");
            let slot = self.to.index(hash);
            // No operation queues a waiter of these keys in a global bucket while `source` is live, so they stay in wake order.
            let mut target = lock_live(self.to, slot);
            self.move_piece(&mut source, &mut target, self.to.hashes_of(slot));
            drop(target); // and gives the CPU to a thread that sleeps for the bucket
        }
        source.retire();
        true
    }

    fn global_to_private(self, step: usize, locked: IfLocked) -> bool {
        let target = self.to.slot(step);
        target.touch();
        let sources = self.slots_of(self.from, step);
        let Some(first) = lock_one(self.from, sources.start, locked) else { return false };
        // SAFETY: the target is not live, and this is the only mover.
        let mut target = unsafe { target.make_live_locked() };
        let mut first = Some(first);
        for source in sources {
            loop {
                // The step cannot be undone from here on, so it waits for the locks of the other sources, one at a time.
                let mut source = first.take().unwrap_or_else(|| lock_live(self.from, source));
                // Only this loop queues waiters in `target`, which is locked, so they stay in wake order.
                let is_last = self.move_piece(&mut source, &mut target, self.to.hashes_of(step));
                drop(source); // as above
                if is_last {
                    break;
                }
            }
        }
        true
    }

    /// Moves up to `PIECE` waiters with hashes in `hashes` to `target`. Returns whether this was the last piece.
    fn move_piece(self, source: &mut Guard<'_>, target: &mut Guard<'_>, hashes: RangeInclusive<u32>) -> bool {
        for _ in 0..PIECE {
            let Some(first) = source.first_in(self.space, hashes.clone()) else { return true };
            // SAFETY: queued in `source`.
            unsafe { source.pass(first, target) };
        }
        false
    }
}

/// Locks a slot of the table in use. `None` if another thread holds it and `locked` is `Skip`.
fn lock_one<'a>(table: Table, slot: usize, locked: IfLocked) -> Option<Guard<'a>> {
    match locked {
        IfLocked::Wait => Some(lock_live(table, slot)),
        IfLocked::Skip => table.slot(slot).try_lock(),
    }
}

/// Locks these slots in order, and leaves them locked without guards, for which there may be no memory. `false` if another
/// thread held one: then none is left locked.
fn lock_all(table: Table, slots: Range<usize>, locked: IfLocked) -> bool {
    for slot in slots.clone() {
        match lock_one(table, slot, locked) {
            Some(guard) => guard.suspend(),
            None => {
                for slot in slots.start..slot {
                    // SAFETY: locked above, and this is the only mover.
                    unsafe { table.slot(slot).resume() }.unlock_and_stay();
                }
                return false;
            }
        }
    }
    true
}

/// Locks a slot of the table in use. The slot is live: only the mover could make it not live.
fn lock_live<'a>(table: Table, slot: usize) -> Guard<'a> {
    loop {
        if let Some(guard) = table.slot(slot).lock_to_move() {
            return guard;
        }
        debug_assert!(false, "slot {slot} of the table in use is not live");
    }
}
