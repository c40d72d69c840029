//! Timers by ID: a hash table that grows while it is used.
//!
//! A block of consecutive IDs stands in one group of slots, and most groups are in the blocks' order (`spread`). So timers with
//! consecutive IDs have chains of one and lie as in an array, and IDs with any stride spread as well. A look-up walks a slot's
//! chain without a lock. A timer that it finds with the ID is the right one. Finding none proves nothing: the timer may have
//! been moved, or a timer on the way have become another one. Then it locks the group and searches again.
//!
//! As with the tables of `table`, exactly one group is live for each ID, and an outgrown table stays valid memory. The table is
//! as large as the timers need that there is memory for, so calls need not count timers. A create that allocates more timers
//! moves some groups.

use core::alloc::Layout;
use core::ptr::{self, NonNull};

use super::entry::Timer;
use crate::error::Error;
use crate::lock::{LIVE, Lock, StateLock};
use crate::sync::{AtomicPtr, AtomicU32, Made, Ordering};
use crate::sys::platform::PlatformRef;
use crate::sys::random::{mixed, seed};
use crate::sys::zeroed;

/// log2 of the slots that share a lock.
pub const GROUP_LOG2: u32 = 6;
const GROUP: usize = 1 << GROUP_LOG2;
const MAX_GROUPS_LOG2: u32 = 31 - GROUP_LOG2;
/// Timers after which a look-up without a lock gives up: it may have strayed into another chain.
const STEPS: usize = 64;
/// log2 of the groups of the first table.
const FIRST_LOG2: u32 = 1;
const GROWTH_LOG2: u32 = 2;
/// Groups that are moved at a time, if each has had one block. One that has had several counts as `SEVERAL`.
const STEP: usize = 16;
const SEVERAL: usize = 8;

/// Slots that share a lock, which lies on a cache line behind them. All zeroes are an empty group that is not live.
#[repr(C, align(64))]
struct SlotGroup {
    /// First timers of chains. Written with the lock held.
    slots: [IdSlot; GROUP],
    lock: StateLock,
    /// The number, plus one, of the block that all timers here have been from; or one of the two below. Guarded by the lock.
    block: AtomicU32,
    made: Made,
}

const NO_BLOCK: u32 = 0;
const SEVERAL_BLOCKS: u32 = u32::MAX;

type IdSlot = AtomicPtr<Timer>;

/// It fits into one word, with the logarithm in the bits that alignment leaves free.
#[derive(Clone, Copy)]
struct IdTable {
    groups: *mut SlotGroup,
    groups_log2: u32,
}

/// The timers of a process. Look-ups read it, so it shares no cache line with what others write.
#[repr(align(64))]
pub struct Ids {
    current: AtomicPtr<SlotGroup>,
    /// Null if the table does not grow.
    next: AtomicPtr<SlotGroup>,
    /// What [`spread`] multiplies by: odd and secret.
    multiplier: u64,
    pub on: PlatformRef,
    growth: Lock<Growth>,
}

struct Growth {
    /// Groups that have been moved, while `next` is not null.
    moved: usize,
    /// By size.
    made: [*mut SlotGroup; MAX_GROUPS_LOG2 as usize + 1],
}

// SAFETY: the tables belong to the `Ids`.
unsafe impl Send for Growth {}

impl Ids {
    pub fn new(on: PlatformRef) -> Result<Self, Error> {
        let mut growth = Growth { moved: 0, made: [ptr::null_mut(); MAX_GROUPS_LOG2 as usize + 1] };
        let table = growth.make(FIRST_LOG2).ok_or(Error::NoMemory)?;
        (0..table.groups()).for_each(|group| table.group(group).lock.make_live());
        Ok(Self {
            current: AtomicPtr::new(table.into_word()),
            next: AtomicPtr::new(ptr::null_mut()),
            multiplier: mixed(seed(table.groups.addr())) | 1,
            on,
            growth: Lock::new(on.for_long_locks(), growth),
        })
    }

    /// The timer with this ID, and the overrun of its last signal. `position` is that of the ID. The timer may become another
    /// one at any time.
    #[inline(always)]
    pub fn find(&self, position: IdPosition<'_>, id: u32) -> Option<(&Timer, i32)> {
        self.walk(position, id).or_else(|| self.find_slowly(id))
    }

    /// Where `id` belongs in the table in use, which may be outgrown at any time.
    #[inline(always)]
    pub fn position(&self, id: u32) -> IdPosition<'_> {
        self.position_in(IdTable::from_word(self.current.load(Ordering::Acquire)), id) // [S]
    }

    fn next(&self) -> Option<IdTable> {
        let next = self.next.load(Ordering::Acquire); // [S]
        (!next.is_null()).then(|| IdTable::from_word(next))
    }

    #[inline(always)]
    fn walk(&self, IdPosition { group, slot }: IdPosition<'_>, id: u32) -> Option<(&Timer, i32)> {
        group.made.see();
        let mut timer = slot.load(Ordering::Acquire); // [R]
        for _ in 0..STEPS {
            let found = as_timer(timer)?;
            if let Some(overrun) = found.overrun_of(id) {
                return Some((found, overrun));
            }
            timer = found.next.load(Ordering::Acquire); // [R]
        }
        None
    }

    #[cold]
    #[inline(never)]
    fn find_slowly(&self, id: u32) -> Option<(&Timer, i32)> {
        // While the table grows, half of the timers are here.
        if let Some(next) = self.next()
            && let Some(found) = self.walk(self.position_in(next, id), id)
        {
            return Some(found);
        }
        let locked = self.lock(id);
        locked.chain().find_map(|timer| timer.overrun_of(id).map(|overrun| (timer, overrun)))
    }

    #[inline(always)]
    fn position_in<'i>(&'i self, table: IdTable, id: u32) -> IdPosition<'i> {
        let (group, first) = spread(self.multiplier, id >> GROUP_LOG2);
        let group = table.group(group as usize & (table.groups() - 1));
        IdPosition { group, slot: &group.slots[id.wrapping_add(first) as usize & (GROUP - 1)] }
    }

    /// Locks the live group of `id`, most likely that of `position`.
    #[inline(always)]
    pub fn lock_at<'i>(&'i self, position: IdPosition<'i>, id: u32) -> LockedGroup<'i> {
        // If this group is live, the ID belongs here, even in an outgrown table.
        let is_locked = position.group.lock.lock_if_idle(&self.on);
        LockedGroup(if is_locked { position } else { self.lock_slowly(id) }, &self.on)
    }

    #[inline(always)]
    pub fn lock(&self, id: u32) -> LockedGroup<'_> {
        self.lock_at(self.position(id), id)
    }

    #[cold]
    #[inline(never)]
    fn lock_slowly(&self, id: u32) -> IdPosition<'_> {
        let mut round = 0;
        loop {
            let current = self.position(id);
            let next = self.next().map(|next| self.position_in(next, id));
            for position in [Some(current), next].into_iter().flatten() {
                if position.group.lock.lock(&self.on).is_some() {
                    return position;
                }
            }
            // The group is live in a table that this thread has not seen, or its mover has not made it live.
            self.on.wait_for_holder(&mut round);
        }
    }

    /// Grows the table for `timers` timers, or goes on by a step. If there is no memory, chains grow instead.
    #[cold]
    pub fn note_timers(&self, timers: usize) {
        let Some(mut growth) = self.growth.try_lock() else { return };
        growth.with(|growth| {
            let current = IdTable::from_word(self.current.load(Ordering::Relaxed));
            let next = match self.next() {
                Some(next) => next,
                None if timers <= GROUP << current.groups_log2 || current.groups_log2 == MAX_GROUPS_LOG2 => return,
                None => {
                    let groups_log2 = (current.groups_log2 + GROWTH_LOG2).min(MAX_GROUPS_LOG2);
                    let Some(next) = growth.make(groups_log2) else { return };
                    growth.moved = 0;
                    self.next.store(next.into_word(), Ordering::Release); // [S]
                    next
                }
            };
            let mut spent = 0;
            while spent < STEP && growth.moved < current.groups() {
                spent += self.move_group(current, next, growth.moved);
                growth.moved += 1;
            }
            if growth.moved == current.groups() {
                self.current.store(next.into_word(), Ordering::Release); // [S]
                // A thread that sees this store but not the one before finds no live group, and checks again.
                self.next.store(ptr::null_mut(), Ordering::Relaxed);
            }
        });
    }

    /// Moves a group's timers to the groups that replace it, which no thread can lock before. Returns the cost, which counts
    /// towards `STEP`.
    fn move_group(&self, from: IdTable, to: IdTable, number: usize) -> usize {
        let source = from.group(number);
        while source.lock.lock(&self.on).is_none() {}
        let targets = || (number..to.groups()).step_by(from.groups()).map(|number| to.group(number));
        let block = source.block.load(Ordering::Relaxed);
        if block == SEVERAL_BLOCKS {
            source.slots.iter().for_each(|slot| self.move_chain(slot, to));
        } else if block != NO_BLOCK {
            // Its timers are alone in their slots, and keep their order. So none of them is read.
            let target = self.position_in(to, (block - 1) << GROUP_LOG2).group;
            target.block.store(block, Ordering::Relaxed);
            for (slot, to) in source.slots.iter().zip(&target.slots) {
                to.store(slot.load(Ordering::Relaxed), Ordering::Release); // [R]
                slot.store(ptr::null_mut(), Ordering::Relaxed);
            }
        }
        targets().for_each(|target| target.lock.make_live());
        source.lock.unlock(&self.on, 0);
        if block == SEVERAL_BLOCKS { SEVERAL } else { 1 }
    }

    fn move_chain(&self, slot: &IdSlot, to: IdTable) {
        let mut timer = slot.load(Ordering::Relaxed);
        while let Some(moved) = as_timer(timer) {
            timer = moved.next.load(Ordering::Relaxed);
            self.position_in(to, moved.id()).put(moved, moved.id());
        }
        slot.store(ptr::null_mut(), Ordering::Relaxed);
    }

    pub fn bytes(&self) -> usize {
        self.growth.lock().with(|growth| {
            let made = growth.made.iter().enumerate().filter(|(_, table)| !table.is_null());
            made.map(|(log2, _)| size_of::<SlotGroup>() << log2).sum()
        })
    }
}

#[inline(always)]
fn as_timer<'t>(timer: *mut Timer) -> Option<&'t Timer> {
    // SAFETY: null, or a timer: memory that has been in a chain stays one as long as the table that the caller is using.
    unsafe { timer.as_ref() }
}

/// The number of lower bits of a block's number that are changed. A table with more than 2^`SPREAD_BITS` groups has too many
/// timers for their blocks to have more than these bits in common.
const SPREAD_BITS: u32 = 8;

/// The group of a block of IDs, and the offset in the group at which it begins, so that IDs whose distance is a multiple of a
/// block get different slots. The caller cuts both to size.
///
/// Each bit of a block's number is changed only by the bits above it. So N consecutive blocks from a multiple of N on have one
/// group each in a table of N groups, most of them side by side, as a CPU's prefetcher expects. Blocks with a stride have their
/// lower bits in common, which are those changed. Without the multiplier it cannot be guessed which blocks share a group.
#[inline(always)]
fn spread(multiplier: u64, block: u32) -> (u32, u32) {
    let product = u64::from(block >> SPREAD_BITS).wrapping_mul(multiplier);
    // Multiples of the multiplier may be spaced unevenly. Three places of the product combined are distributed as by dice.
    let mixed = product ^ (product << 12) ^ (product << 24);
    let changed = block ^ (mixed >> (u64::BITS - SPREAD_BITS)) as u32;
    let first = block.wrapping_add(block >> 6).wrapping_add((product >> (u64::BITS - 2 * SPREAD_BITS)) as u32);
    (changed, first)
}

#[derive(Clone, Copy)]
pub struct IdPosition<'i> {
    group: &'i SlotGroup,
    slot: &'i IdSlot,
}

impl IdPosition<'_> {
    /// Puts `timer` with this ID first into the chain. The group is locked, or not live yet.
    #[inline(always)]
    fn put(&self, timer: &Timer, id: u32) {
        let (was, block) = (self.group.block.load(Ordering::Relaxed), (id >> GROUP_LOG2) + 1);
        if was != block {
            self.group.block.store(if was == NO_BLOCK { block } else { SEVERAL_BLOCKS }, Ordering::Relaxed);
        }
        timer.made.finish();
        // [R] for both stores: a look-up that stands on this timer since it was in another chain may go on from it.
        let first = self.slot.load(Ordering::Relaxed);
        // A timer alone in its slot, as most are, is not written to.
        if timer.next.load(Ordering::Relaxed) != first {
            timer.next.store(first, Ordering::Release); // [R]
        }
        self.slot.store(ptr::from_ref(timer).cast_mut(), Ordering::Release); // [R]
    }
}

pub struct LockedGroup<'i>(IdPosition<'i>, &'i PlatformRef);

impl<'i> LockedGroup<'i> {
    /// Inserts `timer` as `id`, not to be found yet. `false` if a timer has that ID, or has reserved it.
    #[inline(always)]
    #[must_use]
    pub fn insert(&self, timer: &Timer, id: u32) -> bool {
        let is_free = self.0.slot.load(Ordering::Relaxed).is_null() || self.chain().all(|other| other.id() != id);
        if is_free {
            timer.invalidate_as(id);
            self.0.put(timer, id);
            return true;
        }
        false
    }

    #[inline(always)]
    pub fn remove(&self, timer: &Timer) {
        let mut link = self.0.slot;
        while let Some(found) = as_timer(link.load(Ordering::Relaxed)) {
            if ptr::eq(found, timer) {
                link.store(timer.next.load(Ordering::Relaxed), Ordering::Release); // [R]
                // A look-up that stands on this timer ends here, and searches again.
                timer.next.store(ptr::null_mut(), Ordering::Relaxed);
                break;
            }
            link = &found.next;
        }
    }

    fn chain(&self) -> impl Iterator<Item = &'i Timer> {
        let first = as_timer(self.0.slot.load(Ordering::Acquire)); // [R]
        core::iter::successors(first, |timer| as_timer(timer.next.load(Ordering::Acquire))) // [R]
    }
}

impl Drop for LockedGroup<'_> {
    #[inline]
    fn drop(&mut self) {
        // No yield after it: the thread may hold a timer too.
        self.0.group.lock.unlock(self.1, LIVE);
    }
}

impl IdTable {
    #[inline(always)]
    fn from_word(word: *mut SlotGroup) -> Self {
        Self { groups: word.map_addr(|address| address & !63), groups_log2: (word.addr() & 63) as u32 }
    }

    fn into_word(self) -> *mut SlotGroup {
        self.groups.map_addr(|address| address | self.groups_log2 as usize)
    }

    #[inline(always)]
    fn groups(self) -> usize {
        1 << self.groups_log2
    }

    #[inline(always)]
    fn group<'t>(self, group: usize) -> &'t SlotGroup {
        // SAFETY: a table has this many groups, and exists as long as the `Ids`.
        unsafe { &*self.groups.add(group) }
    }
}

fn memory_layout(groups_log2: u32) -> Option<Layout> {
    Layout::array::<SlotGroup>(1 << groups_log2).ok()
}

impl Growth {
    /// No group of the table is live. `None` if there is no memory.
    fn make(&mut self, groups_log2: u32) -> Option<IdTable> {
        let memory = NonNull::new(zeroed::allocate(memory_layout(groups_log2)?))?;
        let table = IdTable { groups: memory.cast().as_ptr(), groups_log2 };
        self.made[groups_log2 as usize] = table.groups;
        Some(table)
    }
}

impl Drop for Growth {
    fn drop(&mut self) {
        for (log2, groups) in self.made.iter().enumerate() {
            let (Some(groups), Some(layout)) = (NonNull::new(*groups), memory_layout(log2 as u32)) else { continue };
            // SAFETY: `make` allocated it like this, and no thread uses it any more.
            unsafe { zeroed::free(groups.as_ptr().cast(), layout) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;
    use std::vec;
    use std::vec::Vec;

    fn multiplier(seed: u64) -> u64 {
        mixed(seed) | 1
    }

    fn most_in_one(seed: u64, groups: u32, blocks: impl Iterator<Item = u32>) -> u32 {
        let mut counts = HashMap::new();
        blocks.for_each(|block| *counts.entry(spread(multiplier(seed), block).0 % groups).or_insert(0) += 1);
        counts.into_values().max().unwrap_or(0)
    }

    #[test]
    fn blocks_that_follow_each_other_have_a_group_each() {
        for seed in 0..50 {
            for log2 in [0, 2, 6, 10, 14] {
                for window in [0, 1, 3, 1000] {
                    let first = window << log2;
                    assert_eq!(most_in_one(seed, 1 << log2, first..first + (1 << log2)), 1, "seed {seed}, 2^{log2}");
                }
                // N blocks from anywhere are blocks of two such windows.
                assert!(most_in_one(seed, 1 << log2, 12_345..12_345 + (1 << log2)) <= 2, "seed {seed}, 2^{log2}");
            }
        }
    }

    /// The average steps of a look-up, with as many IDs as slots, each in a block of its own.
    fn steps_of_a_look_up(seed: u64, timers: u32, blocks: impl Iterator<Item = u32>) -> f64 {
        let mut chains = vec![0u32; timers as usize];
        for block in blocks {
            let (group, first) = spread(multiplier(seed), block);
            chains[(group % (timers / 64) * 64 + first % 64) as usize] += 1;
        }
        f64::from(chains.iter().map(|length| length * (length + 1) / 2).sum::<u32>()) / f64::from(timers)
    }

    #[test]
    fn blocks_far_apart_spread_like_dice() {
        let mut all = Vec::new();
        for seed in 0..20 {
            for stride_log2 in 0..=12 {
                for timers_log2 in 6..=(24 - stride_log2).min(16) {
                    let blocks = (0..1 << timers_log2).map(|number: u32| number << stride_log2);
                    let steps = steps_of_a_look_up(seed, 1 << timers_log2, blocks);
                    assert!(steps <= 4.0, "seed {seed}, 2^{timers_log2} at a stride of 2^{stride_log2}: {steps}");
                    all.push(steps);
                }
            }
        }
        // With dice 1.5: for each slot one timer, and half a timer before the one looked up.
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        assert!(mean <= 1.6, "{mean}");
    }

    #[test]
    fn ids_far_apart_stand_in_different_slots() {
        for seed in 0..20 {
            for stride in [1, 8, 64, 100, 4096] {
                let mut used: Vec<u32> =
                    (0..64).map(|number| spread(multiplier(seed), number * stride).1 % 64).collect();
                used.sort_unstable();
                used.dedup();
                assert!(used.len() >= 16, "seed {seed}, stride {stride}: {} of 64", used.len());
            }
        }
    }

    #[test]
    fn seeds_give_different_ones() {
        let groups =
            |seed| (0..100).map(|number| spread(multiplier(seed), number << SPREAD_BITS).0).collect::<Vec<_>>();
        assert_ne!(groups(1), groups(2));
    }
}
