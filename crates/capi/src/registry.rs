//! Handles, which a C program holds in place of addresses: numbers that are looked up in a table.
//!
//! A handle has the form of a pointer but is not an address. It consists of the number of a slot, the kind of object,
//! and the slot's generation: how often the slot has been used. The slot stores the handle that is alive in it. Slots
//! are never freed, so any 64 bits can be checked, and freed objects are never read. A handle that is not alive is
//! recognised until its slot has been used 2^32 times; after that the slot is not used again.
//!
//! A process may have several copies of the library, for example in two plugins. Each copy counts generations from another
//! number on, which follows from its own address. So it refuses the handles of the others, unless one of the two copies
//! has used a slot about as often as these numbers are apart: for a million uses the odds are 1 in 2,000.
//!
//! An operation *holds* the object while it uses it ([`Held`], see `holds`), or *counts* itself in the slot
//! ([`Counted`]). Freeing marks the slot as closing, and then checks for holders and counted users. If there are any,
//! it opens the slot again and fails with `EBUSY`. Counting and closing are the two sides of Dekker's algorithm, all
//! SeqCst [Ch]: a user counts itself and then checks the mark, and the freeing thread sets the mark and then checks the
//! count, so at least one of the two sees the other. Holding does the same with an asymmetric pair of barriers [Ci],
//! and so without an atomic read-modify-write or a shared line.
//!
//! Threads that try to free an object in use, again and again, keep the mark set nearly all the time. So a user that
//! has met the mark a few times stays counted while it waits: no free begins while the count is not 0, so the mark is
//! gone once the frees that had begun before are over.

use core::marker::PhantomData;
use core::ptr::{self, NonNull};
use std::alloc::{Layout, alloc};

use crate::errno::Errno;
use crate::holds::{self, Record};
use crate::mutants::Mutant;
use crate::spin::Patience;
use crate::sync::{
    AtomicPtr, AtomicU32, AtomicU64, FIRST_CHUNK_LOG2,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
    calling_thread, chunk, free_chunk, mutant,
};

const INDEX_BITS: u32 = 28;
const GENERATION_BITS: u32 = 32;
const KIND_SHIFT: u32 = INDEX_BITS + GENERATION_BITS;
/// Set in a slot's state, never in a handle.
const CLOSING: u64 = 1 << 63;

/// A type of objects that handles refer to.
///
/// # Safety
/// No other type has the same kind. The kind is from 1 to 7.
pub(crate) unsafe trait Object: Send + Sync + 'static {
    /// The C type that the handle points to, as far as the program knows.
    type Opaque;
    const KIND: u64;
}

#[repr(align(64))]
pub(crate) struct Slot {
    /// The handle that is alive in the slot, perhaps with `CLOSING`. 0 means none.
    state: AtomicU64,
    /// Valid as long as a handle is alive in the slot.
    object: AtomicPtr<()>,
    /// How many users count themselves in the slot.
    users: AtomicU32,
    /// How many handles have been made of this slot: a handle has the sum of this and [`first_generation`]. Changed by
    /// the thread that has taken the slot.
    generation: AtomicU32,
    /// One more than the number of the next free slot, 0 for none. Meaningful while the slot is free.
    next_free: AtomicU32,
    /// The TID of the thread that has marked the slot as closing, 0 for none. A thread only compares it with its own
    /// TID, to find out in a signal handler whether it is closing the slot itself.
    closer: AtomicU32,
}

impl Slot {
    fn new() -> Self {
        Self {
            state: AtomicU64::new(0),
            object: AtomicPtr::new(ptr::null_mut()),
            users: AtomicU32::new(0),
            generation: AtomicU32::new(0),
            next_free: AtomicU32::new(0),
            closer: AtomicU32::new(0),
        }
    }

    /// Marks the slot as closing, by the calling thread, if `handle` is alive in it. Otherwise the error is its state.
    fn close(&self, handle: u64) -> Result<(), u64> {
        let thread = calling_thread();
        if mutant(Mutant::ClosesInTwoSteps) {
            let state = self.state.load(Relaxed);
            return (state == handle).then(|| self.state.store(handle | CLOSING, Relaxed)).ok_or(state);
        }
        // [Ch], [Ci]: the mark comes before the checks for users. [Cg]: the thread that sets it sees the object.
        self.state.compare_exchange(handle, handle | CLOSING, SeqCst, SeqCst)?;
        // A signal handler that interrupts this thread before this store, and uses the handle, waits for the mark to
        // go, which cannot happen before it returns. `refusal` does not find that out without the TID, so the handler
        // gets `EBUSY` only after `LONGEST`.
        self.closer.store(thread, Relaxed);
        Ok(())
    }
}

/// More slots are never made. They are allocated in chunks, each twice as large as the one before.
const MOST_SLOTS: u32 = (1 << INDEX_BITS) - (1 << FIRST_CHUNK_LOG2);

/// The chunks, by the logarithm of their number of slots. Null means that there is no such chunk yet.
pub(crate) static SLOTS: [AtomicPtr<Slot>; 32] = [const { AtomicPtr::new(ptr::null_mut()) }; 32];
/// The free slots, as a stack: one more than the number of the first, in the lowest [`INDEX_BITS`]; 0 for none. The bits above
/// count the changes, so that no thread mistakes a later state for the one that it has seen. It has no lock, because threads
/// of all guests make and free objects, and one that holds a lock may lose its CPU.
static FREE: AtomicU64 = AtomicU64::new(0);
/// How many slots have been made.
static MADE: AtomicU32 = AtomicU32::new(0);

/// The number of a slot, and of as many slots as the first chunk has. Its highest bit is the size of the slot's chunk,
/// and the bits below are the slot's index in that chunk.
#[inline(always)]
const fn shifted(index: u32) -> u32 {
    index + (1 << FIRST_CHUNK_LOG2)
}

/// The slot that a handle names, if it exists.
#[inline(always)]
fn slot(handle: u64) -> Option<&'static Slot> {
    let shifted = shifted((handle & ((1 << INDEX_BITS) - 1)) as u32);
    // Less than 29. The mask shows the compiler that it is an index of the array.
    let log2 = shifted.ilog2() & 31;
    let slots = NonNull::new(SLOTS[log2 as usize].load(Acquire))?; // [Cf]
    let index = shifted & !(1 << log2);
    // SAFETY: a chunk has room for every number whose highest bit is its size, is zeroed, and is never freed.
    Some(unsafe { &*slots.as_ptr().add(index as usize) })
}

/// Takes a free slot. Its number, and the slot.
fn take_slot() -> Result<(u32, &'static Slot), Errno> {
    let mut free = FREE.load(Acquire); // [Co]
    while let Some(index) = first_of(free).checked_sub(1) {
        let slot = slot(index.into()).ok_or(Errno::NO_MEMORY)?;
        let next = changed(free, slot.next_free.load(Relaxed));
        match FREE.compare_exchange(free, next, Acquire, Acquire) {
            // [Co]
            Ok(_) => return Ok((index, slot)),
            Err(now) => free = now,
        }
    }
    make_slot()
}

/// Makes a slot that no object has had.
fn make_slot() -> Result<(u32, &'static Slot), Errno> {
    loop {
        let index = MADE.load(Relaxed);
        if index == MOST_SLOTS {
            return Err(Errno::NO_MEMORY);
        }
        let Some(slot) = slot(index.into()) else {
            make_chunk(shifted(index))?;
            continue;
        };
        if MADE.compare_exchange(index, index + 1, Relaxed, Relaxed).is_ok() {
            return Ok((index, slot));
        }
    }
}

/// Makes the chunk of the slot with this number, unless another thread does.
fn make_chunk(shifted: u32) -> Result<(), Errno> {
    let size = 1 << shifted.ilog2();
    // SAFETY: a slot is numbers and a pointer, and a new one has 0 in each. The size is not 0.
    let slots = NonNull::new(unsafe { chunk(size, Slot::new) }).ok_or(Errno::NO_MEMORY)?;
    // [Cf]: a thread that sees the chunk sees its zeroes.
    let stored = SLOTS[shifted.ilog2() as usize].compare_exchange(ptr::null_mut(), slots.as_ptr(), Release, Acquire);
    if stored.is_err() {
        // SAFETY: just made, and no other thread knows it.
        unsafe { free_chunk(slots.as_ptr(), size) };
    }
    Ok(())
}

/// Makes a slot free. If it has used up its generations, it is not used again: otherwise a freed handle would become alive
/// again.
fn give_back(index: u32, slot: &Slot) {
    if slot.generation.load(Relaxed) == u32::MAX {
        return;
    }
    let mut free = FREE.load(Relaxed);
    loop {
        slot.next_free.store(first_of(free), Relaxed);
        match FREE.compare_exchange(free, changed(free, index + 1), Release, Relaxed) {
            // [Co]
            Ok(_) => return,
            Err(now) => free = now,
        }
    }
}

/// What `FREE` says of the first free slot.
fn first_of(free: u64) -> u32 {
    (free & ((1 << INDEX_BITS) - 1)) as u32
}

/// The next value of `FREE`, with `first` as the first free slot.
fn changed(free: u64, first: u32) -> u64 {
    let changes = if mutant(Mutant::CountsNoChanges) { 0 } else { (free >> INDEX_BITS).wrapping_add(1) };
    changes << INDEX_BITS | u64::from(first)
}

/// Forgets all handles in a child of fork(2). Their objects are leaked.
///
/// # Safety
/// There is one thread, and it is in no operation.
pub(crate) unsafe fn forget_all() {
    FREE.store(0, Relaxed);
    let mut made = 0;
    while made < MOST_SLOTS && slot(made.into()).is_some() {
        let first = made;
        made += shifted(first);
        for index in (first..made).rev() {
            let Some(slot) = slot(index.into()) else { continue };
            slot.object.store(ptr::null_mut(), Relaxed);
            slot.users.store(0, Relaxed);
            slot.closer.store(0, Relaxed);
            slot.state.store(0, SeqCst); // [Cg]: nothing is behind a 0
            give_back(index, slot);
        }
    }
    MADE.store(made, Relaxed);
}

/// Puts `value` on the heap, or fails without memory.
pub(crate) fn boxed<T>(value: T) -> Result<Box<T>, Errno> {
    let layout = Layout::new::<T>();
    const { assert!(size_of::<T>() != 0) };
    // SAFETY: the layout's size is not 0.
    let memory = NonNull::new(unsafe { alloc(layout) }).ok_or(Errno::NO_MEMORY)?.cast::<T>();
    // SAFETY: fresh memory of that layout, from the allocator to which a box returns its memory.
    unsafe {
        memory.write(value);
        Ok(Box::from_raw(memory.as_ptr()))
    }
}

/// Where generations begin in this copy of the library.
fn first_generation() -> u32 {
    // 2^64 divided by the golden ratio: copies lie at multiples of a page, and the product spreads those.
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    ((&raw const FREE).addr() as u64).wrapping_mul(SPREAD).wrapping_shr(32) as u32
}

/// Makes a handle for `object`.
pub(crate) fn insert<T: Object>(object: Box<T>) -> Result<*mut T::Opaque, Errno> {
    holds::prepare();
    let (index, slot) = take_slot()?;
    // The slot was taken, so no other thread uses it.
    let count = slot.generation.load(Relaxed) + u32::from(!mutant(Mutant::KeepsGeneration));
    slot.generation.store(count, Relaxed);
    let generation = first_generation().wrapping_add(count);
    let handle = T::KIND << KIND_SHIFT | u64::from(generation) << INDEX_BITS | u64::from(index);
    slot.object.store(Box::into_raw(object).cast(), Relaxed);
    slot.state.store(handle, Release); // [Cg]: a thread that sees the handle sees the object
    Ok(ptr::without_provenance_mut(handle as usize))
}

/// Checks that the handle is of kind `T`, and returns its number.
#[inline(always)]
fn number<T: Object>(handle: *mut T::Opaque) -> Result<u64, Errno> {
    let handle = handle.addr() as u64;
    match handle >> KIND_SHIFT {
        kind if kind == T::KIND => Ok(handle),
        _ if handle == 0 => Err(Errno::INVALID),
        _ => Err(Errno::BAD_HANDLE),
    }
}

/// Whether the handle is alive now. For an operation that refuses bad handles, and does not use the object.
#[inline(always)]
pub(crate) fn is_alive<T: Object>(handle: *mut T::Opaque) -> bool {
    // Nothing behind the handle is read, so the load orders nothing.
    number::<T>(handle).is_ok_and(|handle| slot(handle).is_some_and(|slot| slot.state.load(Relaxed) == handle))
}

/// Called when a handle was not found alive in its slot. `Ok` means that the caller checks again.
#[cold]
fn refusal(slot: &Slot, handle: u64, patience: &mut Patience) -> Result<(), Errno> {
    // [Ch]: only a hint here, because a caller that gets `Ok` loads the state again.
    match slot.state.load(SeqCst) {
        // The mark is gone: the free has failed, and the handle is alive. This counts as a wait, so that a user that
        // meets mark after mark has soon waited often, even if each mark is gone by the time of this check.
        state if state == handle => {
            patience.count_wait();
            Ok(())
        }
        // The slot is marked: a thread is freeing the object, or is about to find that it is in use. If this thread has
        // set the mark itself, then this is a signal handler that has interrupted it, and the mark stays until the
        // handler returns. If another thread has set it, the mark may stay as well: two handlers may each wait for the
        // thread that the other has interrupted. So the wait is limited.
        state if state == handle | CLOSING => {
            let is_own = slot.closer.load(Relaxed) == calling_thread();
            if !is_own && patience.is_left() { Ok(()) } else { Err(Errno::BUSY) }
        }
        _ => Err(Errno::BAD_HANDLE),
    }
}

/// An object that an operation of the calling thread is using. It cannot be freed meanwhile.
pub(crate) struct Held<T: Object> {
    object: NonNull<T>,
    slot: &'static Slot,
    by: By,
}

enum By {
    /// The handle is in the thread's record, at this index.
    Record(&'static Record, usize),
    /// Never read: its drop ends the use.
    Count { _count: Count },
}

impl<T: Object> Held<T> {
    /// Holds the object of `handle`.
    ///
    /// # Errors
    /// [`Errno::INVALID`] for null, [`Errno::BAD_HANDLE`] if this is not a handle of this kind or has been freed,
    /// [`Errno::BUSY`] if it is being freed by an operation that this one has interrupted.
    // Inlined, because every operation does this.
    #[inline(always)]
    pub fn new(handle: *mut T::Opaque) -> Result<Self, Errno> {
        let handle = number::<T>(handle)?;
        let slot = slot(handle).ok_or(Errno::BAD_HANDLE)?;
        let has_looked = mutant(Mutant::EntersLate) && slot.state.load(Relaxed) == handle;
        if let Some((record, index)) = holds::enter(handle) {
            if has_looked || slot.state.load(Acquire) == handle {
                // [Cg], and [Ci]: after the handle was entered.
                return Ok(Self { object: object(slot), slot, by: By::Record(record, index) });
            }
            record.leave(index);
        }
        Self::new_slowly(slot, handle)
    }

    #[cold]
    fn new_slowly(slot: &'static Slot, handle: u64) -> Result<Self, Errno> {
        let Counted { object, count, .. } = Counted::<T>::of_slot(slot, handle)?;
        Ok(Self { object, slot, by: By::Count { _count: count } })
    }

    /// Counts a use of the object that lasts longer than this operation, or is by another thread.
    pub fn count(&self) -> Counted<T> {
        // No check of the mark is needed. The hold keeps the object alive, and the count is raised before the hold ends
        // [Cj]. A thread that frees checks the holds first and then the count, so it sees one of the two.
        Counted { object: self.object, count: Count::new(self.slot), _owns: PhantomData }
    }
}

impl<T: Object> core::ops::Deref for Held<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the object is not freed while it is held.
        unsafe { self.object.as_ref() }
    }
}

impl<T: Object> Drop for Held<T> {
    #[inline(always)]
    fn drop(&mut self) {
        if let By::Record(record, index) = self.by {
            record.leave(index);
        }
    }
}

/// One user in a slot's count. The object of an alive handle is not freed meanwhile.
struct Count(&'static Slot);

impl Count {
    fn new(slot: &'static Slot) -> Self {
        // [Ch], if the caller goes on to check the mark; [Cj], if it has a use of the object already.
        slot.users.fetch_add(1, SeqCst);
        Self(slot)
    }
}

impl Drop for Count {
    /// [Cj]: the uses of the object happen before it is freed.
    fn drop(&mut self) {
        self.0.users.fetch_sub(1, SeqCst);
    }
}

/// An object whose slot counts this use. It cannot be freed meanwhile.
pub(crate) struct Counted<T: Object> {
    object: NonNull<T>,
    count: Count,
    _owns: PhantomData<T>,
}

// SAFETY: a shared reference to an object that is `Sync` and is not freed meanwhile.
unsafe impl<T: Object> Send for Counted<T> {}
// SAFETY: as above.
unsafe impl<T: Object> Sync for Counted<T> {}

impl<T: Object> Counted<T> {
    /// As [`Held::new`], without thread-local storage, so that signal handlers can call it.
    pub fn new(handle: *mut T::Opaque) -> Result<Self, Errno> {
        let handle = number::<T>(handle)?;
        Self::of_slot(slot(handle).ok_or(Errno::BAD_HANDLE)?, handle)
    }

    fn of_slot(slot: &'static Slot, handle: u64) -> Result<Self, Errno> {
        let mut patience = Patience::default();
        loop {
            // Checked first, so that a handle that is not alive causes no write to its slot. [Ch] needs the load that
            // follows the count, not this one. A user that has waited often counts itself although the slot is marked:
            // see the top of the file.
            if slot.state.load(SeqCst) == handle || patience.has_waited_often() {
                let count = Count::new(slot);
                loop {
                    // [Ch]: counted before the mark is checked. [Cg]: the object behind the handle.
                    if mutant(Mutant::CountsLate) || slot.state.load(SeqCst) == handle {
                        return Ok(Self { object: object(slot), count, _owns: PhantomData });
                    }
                    if !patience.has_waited_often() {
                        break;
                    }
                    refusal(slot, handle, &mut patience)?;
                }
            }
            refusal(slot, handle, &mut patience)?;
        }
    }

    /// Frees the object, as soon as all other users are gone. Only for kinds that are counted for short times, and
    /// never held. From now on the handle is dead, so no new user gets the object.
    ///
    /// # Errors
    /// [`Errno::BUSY`] if another thread is already freeing it.
    pub fn take(self) -> Result<Box<T>, Errno> {
        let slot = self.count.0;
        // [Ch]: this load only finds the value for the exchange, which decides.
        let handle = slot.state.load(SeqCst);
        let is_alive = handle != 0 && handle & CLOSING == 0;
        // [Ch], [Cg]: for users the 0 has the effect of a mark: a user that has counted itself and then loads it does
        // not use the object. Unlike a mark it is final. The slot gets no new handle before `retire` puts it into the
        // list of free slots.
        if !is_alive || slot.state.compare_exchange(handle, 0, SeqCst, SeqCst).is_err() {
            return Err(Errno::BUSY);
        }
        let mut patience = Patience::default();
        // [Ch], after the handle was removed; [Cj].
        while slot.users.load(SeqCst) != 1 {
            patience.wait();
        }
        let object = self.object;
        drop(self);
        // SAFETY: this thread has removed the handle, and there are no users.
        Ok(unsafe { retire(slot, handle, object) })
    }
}

impl<T: Object> Clone for Counted<T> {
    fn clone(&self) -> Self {
        // This value counts a use, so the object is not being freed. [Cj]: counted before this value is dropped.
        Self { object: self.object, count: Count::new(self.count.0), _owns: PhantomData }
    }
}

impl<T: Object> core::ops::Deref for Counted<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the object is not freed while its use is counted.
        unsafe { self.object.as_ref() }
    }
}

/// The object of a slot whose handle was alive.
#[inline(always)]
fn object<T>(slot: &Slot) -> NonNull<T> {
    // SAFETY: stored before the handle, and not null.
    unsafe { NonNull::new_unchecked(slot.object.load(Relaxed).cast()) }
}

/// Frees a handle, and returns its object.
///
/// # Errors
/// [`Errno::INVALID`] for null, [`Errno::BAD_HANDLE`] if the handle is not alive, [`Errno::BUSY`] if the object is in
/// use; then it stays alive.
pub(crate) fn remove<T: Object>(handle: *mut T::Opaque) -> Result<Box<T>, Errno> {
    let handle = number::<T>(handle)?;
    let slot = slot(handle).ok_or(Errno::BAD_HANDLE)?;
    let answer = |state| if state == handle | CLOSING { Errno::BUSY } else { Errno::BAD_HANDLE };
    // [Ch]: loaded before the count below. The exchange in `close` decides whether the handle is alive.
    let state = slot.state.load(SeqCst);
    if state != handle {
        return Err(answer(state));
    }
    // If the object has counted users, set no mark: a user that has waited often relies on it. It stays counted until
    // it finds no mark. [Ch]: the count is loaded after `state`. So if `state` shows that another thread has taken its
    // mark back, this load sees every user that had counted itself when it met that mark.
    if slot.users.load(SeqCst) != 0 {
        // [Ch]: the users may be those of a later object in the slot, if another thread has freed this one meanwhile.
        let state = slot.state.load(SeqCst);
        return Err(if state == handle { Errno::BUSY } else { answer(state) });
    }
    slot.close(handle).map_err(answer)?;
    let has_looked = mutant(Mutant::ForgetsUsers) || mutant(Mutant::LooksAtUsersFirst) && slot.users.load(Relaxed) == 0;
    // Holders are checked first [Ci]: a holder that begins to count does so before it stops holding [Cj].
    let is_held = !mutant(Mutant::ForgetsHolders) && holds::is_held(handle);
    #[cfg(test)]
    tests::between_looks();
    // [Ch]: checked after the mark was set.
    if is_held || !has_looked && slot.users.load(SeqCst) != 0 {
        slot.closer.store(0, Relaxed);
        // [Cg]: publishes the object once more.
        slot.state.store(handle, SeqCst);
        return Err(Errno::BUSY);
    }
    // SAFETY: this thread has marked the slot as closing, and there are no users.
    Ok(unsafe { retire(slot, handle, object(slot)) })
}

/// Ends the life of a handle.
///
/// # Safety
/// The caller has marked the slot as closing or has removed the handle, and has seen that `object`, which is the slot's,
/// has no users.
unsafe fn retire<T: Object>(slot: &Slot, handle: u64, object: NonNull<T>) -> Box<T> {
    let give_back = || give_back((handle & ((1 << INDEX_BITS) - 1)) as u32, slot);
    if mutant(Mutant::GivesBackEarly) {
        give_back();
    }
    slot.object.store(ptr::null_mut(), Relaxed);
    slot.closer.store(0, Relaxed);
    slot.state.store(0, SeqCst); // [Cg]: nothing is behind a 0, and [Co] orders the next use
    if !mutant(Mutant::GivesBackEarly) {
        give_back();
    }
    // SAFETY: it came from a box, in `insert`, and has no other owner.
    unsafe { Box::from_raw(object.as_ptr()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    struct Thing(u64);
    enum Opaque {}
    // SAFETY: no other type has this kind.
    unsafe impl Object for Thing {
        type Opaque = Opaque;
        const KIND: u64 = 7;
    }

    fn thing(value: u64) -> *mut Opaque {
        insert(boxed(Thing(value)).unwrap()).unwrap()
    }

    thread_local! {
        /// What another thread would do while this one frees.
        static BETWEEN: std::cell::RefCell<Option<Box<dyn FnOnce()>>> = const { std::cell::RefCell::new(None) };
    }

    /// Called between the two checks for users of an object.
    pub(super) fn between_looks() {
        if let Some(act) = BETWEEN.take() {
            act();
        }
    }

    #[test]
    fn holder_that_begins_to_count_while_the_object_is_freed_keeps_it() {
        let handle = thing(5);
        let held = Held::<Thing>::new(handle).unwrap();
        let kept = std::rc::Rc::new(std::cell::RefCell::new(None));
        let keep = kept.clone();
        BETWEEN.set(Some(Box::new(move || {
            keep.replace(Some(held.count()));
            drop(held);
        })));
        assert_eq!(remove::<Thing>(handle).map(|object| object.0), Err(Errno::BUSY));
        assert_eq!(kept.take().map(|counted| counted.0), Some(5));
        assert_eq!(remove::<Thing>(handle).map(|object| object.0), Ok(5));
    }

    #[test]
    fn user_waits_for_a_thread_that_frees_in_vain_and_is_slow() {
        let handle = thing(5).addr();
        let pointer = move || ptr::without_provenance_mut::<Opaque>(handle);
        let held = Held::<Thing>::new(pointer()).unwrap();
        let (begun, begins) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                BETWEEN.set(Some(Box::new(move || {
                    begun.send(()).unwrap();
                    std::thread::sleep(std::time::Duration::from_secs(1));
                })));
                assert_eq!(remove::<Thing>(pointer()).map(|object| object.0), Err(Errno::BUSY));
            });
            begins.recv().unwrap();
            assert_eq!(Held::<Thing>::new(pointer()).map(|held| held.0), Ok(5));
        });
        drop(held);
        assert_eq!(remove::<Thing>(pointer()).map(|object| object.0), Ok(5));
    }

    #[test]
    fn signal_handler_that_has_interrupted_the_free_gets_the_error_at_once() {
        let handle = thing(5).addr();
        let pointer = move || ptr::without_provenance_mut::<Opaque>(handle);
        let begin = std::time::Instant::now();
        BETWEEN.set(Some(Box::new(move || {
            assert_eq!(Held::<Thing>::new(pointer()).map(|held| held.0), Err(Errno::BUSY));
            assert_eq!(Counted::<Thing>::new(pointer()).map(|counted| counted.0), Err(Errno::BUSY));
        })));
        assert_eq!(remove::<Thing>(pointer()).map(|object| object.0), Ok(5));
        assert!(begin.elapsed() < crate::spin::LONGEST, "it waits for itself");
    }

    #[test]
    fn user_that_waits_is_counted_so_that_the_next_free_sets_no_mark() {
        let handle = thing(5).addr();
        let pointer = move || ptr::without_provenance_mut::<Opaque>(handle);
        let slot = slot(handle as u64).unwrap();
        let (begun, begins) = std::sync::mpsc::channel();
        let counted = std::thread::scope(|scope| {
            let freeing = scope.spawn(move || {
                BETWEEN.set(Some(Box::new(move || {
                    begun.send(()).unwrap();
                    let mut patience = Patience::default();
                    while slot.users.load(Relaxed) == 0 && patience.is_left() {}
                })));
                assert_eq!(remove::<Thing>(pointer()).map(|object| object.0), Err(Errno::BUSY));
                BETWEEN.set(Some(Box::new(|| panic!("marked while a user waits"))));
                assert_eq!(remove::<Thing>(pointer()).map(|object| object.0), Err(Errno::BUSY));
            });
            begins.recv().unwrap();
            let counted = Counted::<Thing>::new(pointer());
            freeing.join().unwrap();
            counted
        });
        assert_eq!(counted.map(|counted| counted.0), Ok(5));
        assert_eq!(remove::<Thing>(pointer()).map(|object| object.0), Ok(5));
    }

    #[test]
    fn handle_whose_free_fails_stays_alive_for_other_threads_meanwhile() {
        let handle = thing(5).addr();
        let pointer = move || ptr::without_provenance_mut::<Opaque>(handle);
        let held = Held::<Thing>::new(pointer()).unwrap();
        assert!(matches!(held.by, By::Record(..)), "a count would be seen before the mark is set");
        let is_running = AtomicUsize::new(1);
        let begun = std::sync::Barrier::new(3);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    begun.wait();
                    while is_running.load(Relaxed) == 1 {
                        assert_eq!(remove::<Thing>(pointer()).map(|object| object.0), Err(Errno::BUSY));
                    }
                });
            }
            begun.wait();
            // Stopped before any assertion, so that a failure does not hang.
            let looks: Vec<_> = (0..5_000).map(|_| Counted::<Thing>::new(pointer()).map(|held| held.0)).collect();
            is_running.store(0, Relaxed);
            assert!(looks.iter().all(|look| *look == Ok(5)));
        });
        drop(held);
        assert_eq!(remove::<Thing>(pointer()).map(|object| object.0), Ok(5));
    }

    #[test]
    fn every_slot_has_a_place_of_its_own() {
        let handles: Vec<_> = (0..10_000).map(thing).collect();
        let mut places: Vec<_> = handles.iter().map(|handle| slot(handle.addr() as u64).map(ptr::from_ref)).collect();
        assert!(places.iter().all(Option::is_some));
        places.sort();
        places.dedup();
        assert_eq!(places.len(), handles.len());
        for handle in handles {
            remove::<Thing>(handle).unwrap();
        }
        // The last number is in a chunk that is never made.
        assert!(slot((1 << INDEX_BITS) - 1).is_none() && shifted(MOST_SLOTS - 1).ilog2() < INDEX_BITS);
        assert_eq!(shifted(MOST_SLOTS), 1 << INDEX_BITS);
    }

    #[test]
    fn handle_that_was_freed_stays_dead_when_its_slot_is_used_again() {
        let handles: Vec<_> = (0..1000).map(thing).collect();
        for (value, &handle) in handles.iter().enumerate() {
            assert_eq!(Held::<Thing>::new(handle).map(|held| held.0), Ok(value as u64));
            assert_eq!(remove::<Thing>(handle).map(|object| object.0), Ok(value as u64));
        }
        let again: Vec<_> = (0..1000).map(thing).collect();
        for &handle in &handles {
            assert_eq!(Held::<Thing>::new(handle).map(|held| held.0), Err(Errno::BAD_HANDLE));
            assert_eq!(Counted::<Thing>::new(handle).map(|held| held.0), Err(Errno::BAD_HANDLE));
            assert_eq!(remove::<Thing>(handle).map(|object| object.0), Err(Errno::BAD_HANDLE));
        }
        for handle in again {
            remove::<Thing>(handle).unwrap();
        }
    }

    #[test]
    fn bits_that_never_were_a_handle_are_refused() {
        let mut bits = 1u64;
        for _ in 0..100_000 {
            bits = bits.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let kind = 7 << KIND_SHIFT;
            for bits in [bits, bits | kind, (bits % 100) | kind] {
                let handle = ptr::without_provenance_mut(bits as usize);
                assert!(Held::<Thing>::new(handle).is_err() && remove::<Thing>(handle).is_err());
            }
        }
        assert_eq!(Held::<Thing>::new(ptr::null_mut()).map(|held| held.0), Err(Errno::INVALID));
    }

    #[test]
    fn object_in_use_is_busy_however_it_is_used() {
        let handle = thing(1);
        let held = Held::<Thing>::new(handle).unwrap();
        let nested: Vec<_> = (0..100).map(|_| Held::<Thing>::new(handle).unwrap()).collect();
        assert_eq!(remove::<Thing>(handle).map(|object| object.0), Err(Errno::BUSY));
        // Dropped in the order in which they were entered, which is unusual.
        drop(held);
        drop(nested);
        let nested: Vec<_> = (0..8).map(|_| Held::<Thing>::new(handle).unwrap()).collect();
        assert!(nested.iter().all(|held| matches!(held.by, By::Record(..))), "no element of the record is lost");
        drop(nested);
        let counted = Held::<Thing>::new(handle).unwrap().count();
        assert_eq!(std::thread::spawn(move || remove_number(handle_number(counted))).join().unwrap(), Err(Errno::BUSY));
        assert_eq!(remove::<Thing>(handle).map(|object| object.0), Ok(1));

        fn handle_number(counted: Counted<Thing>) -> (Counted<Thing>, u64) {
            let handle = counted.count.0.state.load(Relaxed);
            (counted, handle)
        }
        fn remove_number((_counted, handle): (Counted<Thing>, u64)) -> Result<u64, Errno> {
            remove::<Thing>(ptr::without_provenance_mut(handle as usize)).map(|object| object.0)
        }
    }

    /// Panics if it is in use when it is freed.
    struct Mortal(AtomicUsize, &'static AtomicUsize);
    // SAFETY: no other type has this kind.
    unsafe impl Object for Mortal {
        type Opaque = Opaque;
        const KIND: u64 = 6;
    }
    impl Drop for Mortal {
        fn drop(&mut self) {
            assert_eq!(self.0.load(SeqCst), 0, "freed while it was in use");
            self.1.fetch_add(1, SeqCst);
        }
    }

    #[test]
    fn object_is_freed_once_and_never_under_its_users() {
        static FREED: AtomicUsize = AtomicUsize::new(0);
        const ROUNDS: usize = 100;
        for _ in 0..ROUNDS {
            let mortal = boxed(Mortal(AtomicUsize::new(0), &FREED)).unwrap();
            let handle = insert(mortal).unwrap().addr();
            let pointer = move || ptr::without_provenance_mut::<Opaque>(handle);
            std::thread::scope(|scope| {
                for counts in [false, true] {
                    scope.spawn(move || {
                        loop {
                            let held = match Held::<Mortal>::new(pointer()) {
                                Ok(held) => held,
                                Err(error) => break assert_eq!(error, Errno::BAD_HANDLE),
                            };
                            held.0.fetch_add(1, SeqCst);
                            if counts {
                                let counted = held.count();
                                drop(held);
                                counted.0.fetch_sub(1, SeqCst);
                            } else {
                                held.0.fetch_sub(1, SeqCst);
                            }
                        }
                    });
                    scope.spawn(move || {
                        while remove::<Mortal>(pointer()).map(drop) == Err(Errno::BUSY) {
                            std::thread::yield_now();
                        }
                    });
                }
            });
        }
        assert_eq!(FREED.load(SeqCst), ROUNDS);
    }
}
