//! Timers by ID: a hash table that grows while it is used.
//!
//! IDs that follow each other stand in slots that follow each other, a group of them at a time; the groups are spread
//! by a multiplication. So timers with consecutive IDs have chains of one and share cache lines, and IDs with any stride
//! spread as well. A look-up takes no lock: it walks a slot's chain, and a timer that it finds is the one that it looks
//! for, wherever the timer stands. Finding nothing proves nothing, since a timer may have been moved meanwhile, or made
//! another one: then the group is locked and looked at again.
//!
//! The tables are kept as those of `table` are: each group says whether it is live, for each ID exactly one is, and
//! a table that has been grown out of stays valid memory. They share the lock, and nothing more: a futex's bucket is a
//! line with a queue that moves as a whole, a timer's slot is one pointer that is read without a lock, and a lock for each
//! would double the table. It grows by the number of timers that there is memory for, which nobody has to count at
//! every call, and a group at a time, by whoever makes more.

use alloc::alloc::{Layout, alloc_zeroed, dealloc};
use core::ptr::{self, NonNull};

use super::entry::Timer;
use crate::sync::{AtomicPtr, MODEL, Made, Mutant, Ordering, mutant, relaxed_in, spin_loop};
use crate::table::lock::{LIVE, Lock, StateLock};

/// Slots that share a lock, and IDs that stay together.
const GROUP_LOG2: u32 = if MODEL { 0 } else { 6 };
const GROUP: usize = 1 << GROUP_LOG2;
/// 2^31 IDs make so many groups.
const MAX_GROUPS_LOG2: u32 = 31 - GROUP_LOG2;
/// A look-up without a lock goes no further: it may have been led astray.
const STEPS: usize = if MODEL { 3 } else { 64 };
/// Groups that are moved at a time.
const STEP: usize = if MODEL { 1 } else { 2 };

/// What a group of slots is locked by, on a line of its own.
#[repr(align(64))]
struct Group(StateLock, Made);

type Slot = AtomicPtr<Timer>;

/// One table: its groups' locks, then its slots. A word holds it: the address, and the number of groups below the
/// alignment.
#[derive(Clone, Copy)]
struct Table {
    groups: NonNull<Group>,
    groups_log2: u32,
}

/// Where an ID belongs.
#[derive(Clone, Copy)]
struct Place {
    group: usize,
    slot: usize,
}

/// See the top of this file.
pub struct Ids {
    /// Null before the first timer.
    current: AtomicPtr<Group>,
    /// What is being grown into.
    next: AtomicPtr<Group>,
    multiplier: u64,
    growth: Lock<Growth>,
}

struct Growth {
    /// Groups that have been moved, while there is a `next`.
    moved: usize,
    /// By size.
    made: [*mut Group; MAX_GROUPS_LOG2 as usize + 1],
}

// SAFETY: the pointers are to tables that belong to the `Ids`.
unsafe impl Send for Growth {}

/// An ID is in use.
#[derive(Debug)]
pub struct InUse;

impl Ids {
    /// No table; `seed` decides where groups go.
    pub fn new(seed: u64) -> Self {
        Self {
            current: AtomicPtr::new(ptr::null_mut()),
            next: AtomicPtr::new(ptr::null_mut()),
            multiplier: super::spread::multiplier(seed),
            growth: Lock::new(Growth { moved: 0, made: [ptr::null_mut(); MAX_GROUPS_LOG2 as usize + 1] }),
        }
    }

    /// The timer with this ID, and the overrun of its last signal. By the time it is looked at it may be another one.
    #[inline]
    pub fn find(&self, id: u32) -> Option<(&Timer, i32)> {
        let table = Table::from_word(self.current.load(Ordering::Acquire))?; // [S]
        match self.walk(table, id) {
            None => self.find_slowly(id),
            found => found,
        }
    }

    #[inline(always)]
    fn walk(&self, table: Table, id: u32) -> Option<(&Timer, i32)> {
        let place = self.place(table, id);
        table.group(place.group).1.see();
        let mut timer = table.slot(place).load(Ordering::Acquire); // [R]
        for _ in 0..STEPS {
            // SAFETY: whatever has been in a chain is a timer for as long as the table is there.
            let found = unsafe { timer.as_ref() }?;
            if let Some(overrun) = found.overrun_of(id) {
                return Some((found, overrun));
            }
            timer = found.next.load(Ordering::Acquire); // [R]
        }
        None
    }

    #[cold]
    fn find_slowly(&self, id: u32) -> Option<(&Timer, i32)> {
        // While the table grows this is where half of them are.
        if let Some(next) = Table::from_word(self.next.load(Ordering::Acquire))
            && let Some(found) = self.walk(next, id)
        {
            return Some(found);
        }
        if mutant(Mutant::LookUpTrustsMiss) {
            return None;
        }
        let locked = self.lock(id)?;
        locked.chain().find_map(|timer| timer.overrun_of(id).map(|overrun| (timer, overrun)))
    }

    /// Puts `timer` in, whose word names `id` already.
    ///
    /// # Errors
    /// [`InUse`]. Without any table, which only the want of memory explains, the ID is not to be had either: `None`.
    pub fn insert(&self, timer: &Timer, id: u32) -> Option<Result<(), InUse>> {
        let locked = self.lock_or_make(id)?;
        if locked.chain().any(|other| other.id() == id) && !mutant(Mutant::InsertSkipsCheck) {
            return Some(Err(InUse));
        }
        put_first(locked.slot(), timer);
        Some(Ok(()))
    }

    /// Takes `timer` out, which is in as `id`.
    pub fn remove(&self, timer: &Timer, id: u32) {
        let Some(locked) = self.lock(id) else { return };
        let mut link = locked.slot();
        loop {
            let Some(found) = as_timer(link.load(Ordering::Relaxed)) else { return };
            if ptr::eq(found, timer) {
                link.store(timer.next.load(Ordering::Relaxed), Ordering::Release); // [R]
                // Who stands on it is led nowhere, and looks again.
                timer.next.store(ptr::null_mut(), Ordering::Relaxed);
                return;
            }
            link = &found.next;
        }
    }

    #[inline(always)]
    fn place(&self, table: Table, id: u32) -> Place {
        let spread = u64::from(id >> GROUP_LOG2).wrapping_mul(self.multiplier);
        let group = (u128::from(spread) << table.groups_log2 >> 64) as usize;
        // The order within a group begins anywhere: IDs that are a multiple of the group apart spread too.
        let within = (id as usize).wrapping_add((spread >> 8) as usize) & (GROUP - 1);
        Place { group, slot: group << GROUP_LOG2 | within }
    }

    /// Locks the live group of `id`; `None` without a table.
    fn lock(&self, id: u32) -> Option<Locked<'_>> {
        loop {
            let current = Table::from_word(self.current.load(Ordering::Acquire))?; // [S]
            let next = Table::from_word(self.next.load(Ordering::Acquire)); // [S]
            for table in [Some(current), next].into_iter().flatten() {
                let place = self.place(table, id);
                if table.group(place.group).0.lock().is_some() {
                    return Some(Locked { table, place, _ids: self });
                }
            }
            // It became live in a table that we do not know yet.
            spin_loop();
        }
    }

    fn lock_or_make(&self, id: u32) -> Option<Locked<'_>> {
        match self.lock(id) {
            None => {
                self.make_first();
                self.lock(id)
            }
            locked => locked,
        }
    }

    #[cold]
    fn make_first(&self) {
        self.growth.lock().with(|growth| {
            if !self.current.load(Ordering::Relaxed).is_null() {
                return;
            }
            let Some(table) = growth.make(0) else { return };
            table.group(0).0.make_live();
            self.current.store(table.into_word(), relaxed_in(Mutant::IdsRelaxed, Ordering::Release)); // [S]
        });
    }

    /// There are now so many timers: grows, or goes on growing, by a step. Without memory chains grow instead.
    #[cold]
    pub fn note_timers(&self, timers: usize) {
        let Some(mut growth) = self.growth.try_lock() else { return };
        growth.with(|growth| {
            let Some(current) = Table::from_word(self.current.load(Ordering::Relaxed)) else { return };
            if self.next.load(Ordering::Relaxed).is_null() {
                if timers <= current.slots() || current.groups_log2 == MAX_GROUPS_LOG2 {
                    return;
                }
                let Some(next) = growth.make(current.groups_log2 + 1) else { return };
                growth.moved = 0;
                self.next.store(next.into_word(), relaxed_in(Mutant::IdsRelaxed, Ordering::Release)); // [S]
            }
            let Some(next) = Table::from_word(self.next.load(Ordering::Relaxed)) else { return };
            let groups = 1 << current.groups_log2;
            for _ in 0..STEP.min(groups - growth.moved) {
                self.move_group(current, next, growth.moved);
                growth.moved += 1;
            }
            if growth.moved == groups {
                self.current.store(next.into_word(), relaxed_in(Mutant::IdsRelaxed, Ordering::Release)); // [S]
                // Whoever sees this and not that finds no live group, and looks again.
                self.next.store(ptr::null_mut(), Ordering::Relaxed);
            }
        });
    }

    /// Moves a group to the two that take its place, which nobody can lock before it is done.
    fn move_group(&self, from: Table, to: Table, group: usize) {
        let source = from.group(group);
        while source.0.lock().is_none() {}
        let targets = [to.group(2 * group), to.group(2 * group + 1)];
        if mutant(Mutant::GroupLiveEarly) {
            targets.iter().for_each(|target| target.0.make_live());
        }
        for slot in 0..GROUP {
            let head = from.slot(Place { group, slot: group << GROUP_LOG2 | slot });
            let mut timer = head.load(Ordering::Relaxed);
            while let Some(moved) = as_timer(timer) {
                timer = moved.next.load(Ordering::Relaxed);
                put_first(to.slot(self.place(to, moved.id())), moved);
            }
            head.store(ptr::null_mut(), Ordering::Relaxed);
        }
        if !mutant(Mutant::GroupLiveEarly) {
            targets.iter().for_each(|target| target.0.make_live());
        }
        source.0.unlock(if mutant(Mutant::GroupStaysLive) { LIVE } else { 0 });
    }

    /// All tables, in bytes.
    pub fn bytes(&self) -> usize {
        self.growth.lock().with(|growth| {
            let made = growth.made.iter().enumerate().filter(|(_, table)| !table.is_null());
            made.filter_map(|(log2, _)| memory_layout(log2 as u32)).map(|layout| layout.size()).sum()
        })
    }
}

/// Puts `timer` before the others of `slot`, whose group is locked, or not live yet.
fn put_first(slot: &Slot, timer: &Timer) {
    timer.made.finish();
    // [R] twice: who stands on this timer, since it was in another chain, may go on from it and be the first to
    // come by its successor.
    let order = relaxed_in(Mutant::SuccessorRelaxed, Ordering::Release);
    timer.next.store(slot.load(Ordering::Relaxed), order);
    slot.store(ptr::from_ref(timer).cast_mut(), relaxed_in(Mutant::HeadRelaxed, Ordering::Release));
}

/// Timers are found through pointers that nobody guards.
fn as_timer<'t>(timer: *mut Timer) -> Option<&'t Timer> {
    // SAFETY: null, or a timer for as long as the table is there, which whoever calls this uses.
    unsafe { timer.as_ref() }
}

/// The live group of an ID, locked.
struct Locked<'i> {
    table: Table,
    place: Place,
    _ids: &'i Ids,
}

impl<'i> Locked<'i> {
    fn slot(&self) -> &'i Slot {
        self.table.slot(self.place)
    }

    fn chain(&self) -> impl Iterator<Item = &'i Timer> {
        let first = as_timer(self.slot().load(Ordering::Acquire)); // [R]
        core::iter::successors(first, |timer| as_timer(timer.next.load(Ordering::Acquire))) // [R]
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // Its holder may hold a timer, and so keeps its CPU.
        self.table.group(self.place.group).0.unlock_and_stay(LIVE);
    }
}

impl Table {
    fn from_word(word: *mut Group) -> Option<Self> {
        let groups = NonNull::new(word.map_addr(|address| address & !63))?;
        Some(Self { groups, groups_log2: (word.addr() & 63) as u32 })
    }

    fn into_word(self) -> *mut Group {
        self.groups.as_ptr().map_addr(|address| address | self.groups_log2 as usize)
    }

    fn slots(self) -> usize {
        GROUP << self.groups_log2
    }

    #[inline(always)]
    fn group<'t>(self, group: usize) -> &'t Group {
        // SAFETY: a table has so many groups, and is there as long as the `Ids` are, which whoever calls this uses.
        unsafe { self.groups.add(group).as_ref() }
    }

    #[inline(always)]
    fn slot<'t>(self, place: Place) -> &'t Slot {
        // SAFETY: behind the groups there are the slots; otherwise as above.
        unsafe { self.groups.add(1 << self.groups_log2).cast::<Slot>().add(place.slot).as_ref() }
    }
}

fn memory_layout(groups_log2: u32) -> Option<Layout> {
    let groups = Layout::array::<Group>(1 << groups_log2).ok()?;
    let slots = Layout::array::<Slot>(GROUP << groups_log2).ok()?;
    Some(groups.extend(slots).ok()?.0.pad_to_align())
}

impl Growth {
    /// A table of so many groups, none of them live; `None` when its memory cannot be had.
    fn make(&mut self, groups_log2: u32) -> Option<Table> {
        // SAFETY: it has a size.
        let memory = unsafe { alloc_zeroed(memory_layout(groups_log2)?) };
        let table = Table { groups: NonNull::new(memory)?.cast(), groups_log2 };
        if MODEL {
            for group in 0..1 << groups_log2 {
                // SAFETY: within the fresh memory.
                unsafe { table.groups.add(group).write(Group(StateLock::new(0), Made::new())) };
            }
            for slot in 0..table.slots() {
                let slot: *const Slot = table.slot(Place { group: 0, slot });
                // SAFETY: as above.
                unsafe { slot.cast_mut().write(AtomicPtr::new(ptr::null_mut())) };
            }
        }
        // Otherwise zeroes are what is wanted: not live, unlocked, no timers.
        self.made[groups_log2 as usize] = table.groups.as_ptr();
        Some(table)
    }
}

impl Drop for Growth {
    fn drop(&mut self) {
        for (log2, groups) in self.made.iter().enumerate() {
            let (Some(groups), Some(layout)) = (NonNull::new(*groups), memory_layout(log2 as u32)) else { continue };
            if MODEL {
                let table = Table { groups, groups_log2: log2 as u32 };
                for group in 0..1 << log2 {
                    // SAFETY: written by `make`, and dropped once.
                    unsafe { groups.add(group).drop_in_place() };
                }
                for slot in 0..table.slots() {
                    let slot: *const Slot = table.slot(Place { group: 0, slot });
                    // SAFETY: as above.
                    unsafe { slot.cast_mut().drop_in_place() };
                }
            }
            // SAFETY: made by `make` like this; nobody uses it any more.
            unsafe { dealloc(groups.as_ptr().cast(), layout) };
        }
    }
}
